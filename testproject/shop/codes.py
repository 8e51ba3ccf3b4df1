"""The codes of the shop's tasks. The number of a task is the primary key of its promotion or order, if it has one."""

END_PROMOTION = "shop.end-promotion"
CANCEL_UNPAID_ORDER = "shop.cancel-unpaid-order"
REMINDER = "shop.reminder"
NIGHTLY_REPORT = "shop.nightly-report"

ALL = [END_PROMOTION, CANCEL_UNPAID_ORDER, REMINDER, NIGHTLY_REPORT]
