"""The shop at work for forty seconds, and checked.

Ends with exit code 0 only if everything happened as it should, and when it should.
"""

import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from types import FrameType

from testproject.demo.preparing import prepare, where_to_look

LEAST = 20
"""The least number of stories, so that every kind appears."""


def main() -> int:
    signal.signal(signal.SIGTERM, stop)
    options = parsed()
    print("The shop opens: database, products, web server, executor.", flush=True)
    products = prepare(options.promotions + 1, options.seed)
    # What needs the models can be imported only now.
    from testproject.demo.performance import perform

    good = perform(options, products)
    print(f"\n{where_to_look()}\n\n{'All of it holds.' if good else 'NOT all of it holds.'}")
    return 0 if good else 1


def parsed() -> Namespace:
    parser = ArgumentParser("python -m testproject.demo", description=__doc__)
    parser.add_argument("--promotions", type=count, default=200, help="how many (default: 200)")
    parser.add_argument("--orders", type=count, default=120, help="how many (default: 120)")
    parser.add_argument("--seed", type=int, default=1, help="for what is left to chance (default: 1)")
    parser.add_argument("--keep", action="store_true", help="leave the shop open afterwards, until Ctrl-C")
    return parser.parse_args()


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < LEAST:
        raise ArgumentTypeError(f"expected a number from {LEAST} upwards, not {text!r}")
    return int(text)


def stop(signal_number: int, frame: FrameType | None) -> None:
    sys.exit(128 + signal_number)


if __name__ == "__main__":
    sys.exit(main())
