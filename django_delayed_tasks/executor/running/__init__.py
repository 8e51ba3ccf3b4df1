"""One run: may it start, what did it return, which settlement follows; and the threads that run it."""
