"""What the shop refuses to do, in words for the person who asked."""


class ShopError(Exception):
    """The request does not fit the present state of a promotion or an order; nothing was changed."""
