"""Django's AdminEmailHandler, set up as the documentation says: a task that failed is one mail to the admins."""

from email import message_from_bytes, policy

from django_delayed_tasks.api import add_task
from django_delayed_tasks.models import Task
from tests.processes.conftest import Start
from tests.processes.folder import Folder

MAILING = {
    "DJANGO_SETTINGS_MODULE": "tests.processes.mailing_settings",
    "DDT_MORE_HANDLERS": '["tests.processes.failing.Failing"]',
}


def test_a_failure_is_a_mail(starttask: Start, folder: Folder, unknown_codes: None) -> None:
    add_task(Task(biz_code="failing", biz_num="A-1", biz_ext={"order": 4711, "token": "s3cret"}))
    child = starttask("--drain", environment=MAILING)
    assert child.exit_code() == 0
    [file] = (folder.path / "mails").iterdir()
    sent = file.read_bytes()
    assert sent.count(b"Subject:") == 1
    mail = message_from_bytes(sent, policy=policy.default)
    # Decoded: Django before 6.0 sends quoted-printable, which breaks a line anywhere.
    text = "\n".join(part.get_content() for part in mail.walk() if part.get_content_maintype() == "text")
    why = "ValueError: order 4711 cannot be paid with 6 characters"
    assert str(mail["Subject"]).endswith(f"ERROR: failing A-1 failed for good: {why}")
    assert "in handle" in text
    assert "s3cret" not in text
    assert b"s3cret" not in sent
    assert f"failing A-1 failed, and is tried again in 0 s: {why}" in child.output
    assert f"failing A-1 failed for good: {why}" in child.output
    assert "Drained: 2 runs, 1 failed, 1 retried, in " in child.output
