from django_delayed_tasks import task_handler

from shop.services import CODE, cancel_order


@task_handler(CODE, atomic=True)
def cancel_unpaid_order(task):
    cancel_order(task.biz_num)
