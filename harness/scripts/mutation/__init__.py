"""A measure of the tests: small changes to the code, one at a time, of which the tests have to notice each one."""
