"""Products, promotions that end by themselves, orders that are cancelled unless they are paid."""
