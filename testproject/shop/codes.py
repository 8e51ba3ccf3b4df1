"""The codes of the shop's tasks. The number of a task is the primary key of its promotion or order."""

END_PROMOTION = "shop.end-promotion"
CANCEL_UNPAID_ORDER = "shop.cancel-unpaid-order"
REMINDER = "shop.reminder"

ALL = [END_PROMOTION, CANCEL_UNPAID_ORDER, REMINDER]
