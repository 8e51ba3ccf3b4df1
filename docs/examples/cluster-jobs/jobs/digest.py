"""A short job that cron starts on every host at the same minute."""

from django_delayed_tasks.leases import mutex


def say_who(host, pid, heartbeat):
    print("another host sends the digest, or has just sent it")


@mutex("send-digest", at_least=30, state={"issue": 0}, on_standby=say_who)
def send_digest(lease):
    issue = lease.state["issue"] + 1
    print(f"digest {issue} is sent")
    lease.state["issue"] = issue
