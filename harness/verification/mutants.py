"""Bugs, put into the model on purpose: spin has to find each, or the model says nothing about the code."""

from dataclasses import dataclass, replace

from harness.verification.sizes import SMALL, LanesSize, Size

ZOMBIE = replace(SMALL, losses=0)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug: the macro that ``store.pml`` looks at, and in words what is missing."""

    macro: str
    what: str
    size: Size | LanesSize = ZOMBIE

    @property
    def name(self) -> str:
        return self.macro.lower().replace("_", " ")


MUTANTS = [
    Mutant("SETTLE_WITHOUT_FENCE", "a settlement does not compare the version"),
    Mutant("ADD_WITHOUT_VERSION", "an add that replaces leaves the version as it is"),
    Mutant("DELETE_IGNORES_DEFERRED", "a run that is done deletes the task, whatever was deferred meanwhile"),
    Mutant("REAP_WITHOUT_FENCE", "a reaper rescues whatever claim the task is in by now", replace(ZOMBIE, rescues=2)),
    Mutant("CLAIM_WITHOUT_VERSION", "a claim leaves the version as it is"),
    Mutant("RENEW_REVIVES", "a late heartbeat makes a dead executor alive again"),
    Mutant("CANCEL_KEEPS_DEFERRED", "a cancel leaves the deferred schedule", replace(ZOMBIE, calls=3)),
    Mutant("ADD_DOES_NOT_DEFER", "an add during a run makes the task pending at once"),
    Mutant("KEEP_IGNORES_STOPPING", "a keep of a stopping row keeps nothing", replace(ZOMBIE, calls=3)),
    Mutant("WORSE_IGNORES_STOPPING", "a comparison with a stopping row keeps nothing", replace(ZOMBIE, calls=3)),
    Mutant("CANCEL_OUTLIVES_ADD", "a cancel request wins over the add that came after it", replace(ZOMBIE, calls=3)),
    Mutant("BULK_DOES_NOT_LOOK", "an add in bulk keeps whatever row there is", replace(ZOMBIE, calls=3, bulks=1)),
    Mutant("END_UNNOTED", "the end of a run forgets to let the next task of its key in", LanesSize()),
    Mutant("SLOT_WITHOUT_VERSION", "a slot that two executors saw free is given away twice", LanesSize()),
    Mutant("HAND_ON_LOST", "a run whose claim was taken hands its slot on", LanesSize()),
    Mutant("NO_SECOND_LOOK", "an executor that has blocked a task does not look again", LanesSize()),
]

REDUNDANT = Mutant("TAKEN_WITHOUT_VERSION", "a reap or a release leaves the version as it is", SMALL)
"""No bug by itself: the next claim raises the version, and a settlement compares the status too. See README.md."""
