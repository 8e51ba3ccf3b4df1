/* Tasks of one concurrency key that has one slot, claimed by executors that may die, changed by callers meanwhile.
 * README.md says what this stands for.
 *
 * Sizes (-D): EXECUTORS, TASKS, CRASHES of executors and CHANGES by callers, and retries.
 */

#define NONE TASKS

/* Where a task is: in the open lane of its code, blocked in the lane of its key, running, or done. */
mtype = { OPEN, BLOCKED, RUNNING, GONE };
mtype status[TASKS + 1];
byte version[TASKS + 1];

/* The row of the slot: the claim that holds it, if that is live, and the version of the row. */
byte slot_task = NONE, slot_claim, slot_version;
#define IS_FREE (slot_task == NONE || status[slot_task] != RUNNING || version[slot_task] != slot_claim)

#ifdef SLOT_WITHOUT_VERSION
#define IS_SAME(of_slot) true
#else
#define IS_SAME(of_slot) (slot_version == of_slot)
#endif

#ifdef HAND_ON_LOST
#define MAY_HAND_ON(e) true
#else
#define MAY_HAND_ON(e) (LIVE(e) && slot_version == held_slot[e])
#endif

/* What executors know, each of itself. */
byte runs[EXECUTORS] = NONE;          /* the task in its handler, or one whose end it has not noted yet */
byte claim[EXECUTORS];                /* the version of that claim */
bit freed[EXECUTORS];                 /* it is going to read the lane of the key */
bit looking[EXECUTORS];               /* it has read a task, and is yet to write */
bit noting[EXECUTORS];                /* it has settled a run, and is yet to note that */
bit dead[EXECUTORS];
byte stock[EXECUTORS] = NONE;         /* a task that it has read and found no slot for: the next to get one */
byte stock_version[EXECUTORS];
byte held_slot[EXECUTORS];            /* the version of the slot since its claim */
bit is_owed;                          /* the search that each executor makes from time to time is yet to come */
byte crashes = CRASHES, changes = CHANGES;

#define LIVE(e) (!dead[e] && runs[e] != NONE && status[runs[e]] == RUNNING && version[runs[e]] == claim[e])
#define IS_UNAWARE(e) (!dead[e] && runs[e] != NONE && !LIVE(e)) /* its claim was taken; its heartbeat will tell it */
#define LOOKS(e) (!dead[e] && (freed[e] || looking[e] || noting[e] || IS_UNAWARE(e)))
#define ANY(place) (status[0] == place || status[1] == place || status[2] == place)

inline check() {
    /* no more runs than slots */
    assert(LIVE(0) + LIVE(1) <= 1);
    /* no blocked task is forgotten: while the slot is free, an executor is about to look, or will take an open task first */
    assert(!ANY(BLOCKED) || !IS_FREE || ANY(OPEN) || is_owed || LOOKS(0) || LOOKS(1))
}

inline choose(t, place) {
    if
    :: status[0] == place -> t = 0
    :: status[1] == place -> t = 1
#if TASKS > 2
    :: status[2] == place -> t = 2
#endif
    fi
}

/* executor/limits/lanes.py, Lanes.tick: read, look at the slot, then one transaction */
proctype claimer(byte me) {
    byte t, of_version, of_slot;
    bit was_blocked;

again:
    atomic { t = 0; of_version = 0; of_slot = 0; was_blocked = 0 };
end_idle:
    if
    :: atomic { !dead[me] && noting[me] -> /* Lane.note_ends */
        runs[me] = NONE; noting[me] = 0;
#ifndef END_UNNOTED
        freed[me] = 1;
#endif
        check()
      };
      goto again
    :: atomic { !dead[me] && ANY(OPEN) ->
        choose(t, OPEN); of_version = version[t]; looking[me] = 1
      }
    :: atomic { !dead[me] && freed[me] && ANY(BLOCKED) ->
        choose(t, BLOCKED); of_version = version[t]; looking[me] = 1; was_blocked = 1
      }
    :: atomic { !dead[me] && freed[me] && !ANY(BLOCKED) -> freed[me] = 0; check() }; goto again
    :: atomic { !dead[me] && is_owed -> is_owed = 0; freed[me] = 1; printf("executor %d: searches\n", me); check() };
       goto again
    fi;
    atomic {
        of_slot = slot_version;
        printf("executor %d: has read task %d, the slot is free: %d\n", me, t, IS_FREE);
        if
        :: IS_FREE && !dead[me] -> skip
        :: !IS_FREE && !dead[me] -> stock[me] = t; stock_version[me] = of_version; goto block
        :: dead[me] -> goto again
        fi
    };
    /* store/limits/claiming.py, claim_chosen */
    atomic {
        if
        :: !dead[me] && runs[me] == NONE && version[t] == of_version && (status[t] == OPEN || status[t] == BLOCKED) && IS_SAME(of_slot) ->
            version[t]++; status[t] = RUNNING;
            slot_task = t; slot_claim = version[t]; slot_version++;
            runs[me] = t; claim[me] = version[t]; held_slot[me] = slot_version;
            freed[me] = 0;
            printf("executor %d: claims task %d\n", me, t)
        :: else /* what was read is read again */
        fi;
        looking[me] = 0;
        check()
    };
    goto again;

block:
    atomic {
        if
        :: !dead[me] && was_blocked -> freed[me] = 0; looking[me] = 0
        :: !dead[me] && !was_blocked && status[t] == OPEN && version[t] == of_version ->
            status[t] = BLOCKED;
            printf("executor %d: blocks task %d\n", me, t)
        :: else
        fi;
        check()
    };
    /* Lanes._look_again: unless its own run has the slot, whose end it will note */
    atomic {
        if
#ifndef NO_SECOND_LOOK
        :: !dead[me] && !was_blocked && IS_FREE && runs[me] == NONE -> freed[me] = 1
#endif
        :: else
        fi;
        looking[me] = 0;
        check()
    };
    goto again
}

/* running/ and settling/ of the same process: the run ends, in whatever way, or the heartbeat finds the claim taken.
 * executor/limits/relay.py: the transaction that settles the run may hand its slot on to a task that was read before.
 */
proctype runner(byte me) {
    byte t;
end_idle:
    atomic { !dead[me] && runs[me] != NONE && !noting[me] ->
        t = runs[me];
        if
        :: stock[me] != NONE && stock[me] != t && MAY_HAND_ON(me) && version[stock[me]] == stock_version[me] &&
           (status[stock[me]] == OPEN || status[stock[me]] == BLOCKED) ->
            if
            :: LIVE(me) -> status[t] = GONE; printf("executor %d: settles task %d\n", me, t)
            :: LIVE(me) && changes > 0 -> changes--; status[t] = OPEN;
                printf("executor %d: settles task %d, for a retry\n", me, t)
            :: else
            fi;
            t = stock[me]; stock[me] = NONE;
            version[t]++; status[t] = RUNNING;
            slot_task = t; slot_claim = version[t]; slot_version++;
            runs[me] = t; claim[me] = version[t]; held_slot[me] = slot_version;
            printf("executor %d: hands its slot on to task %d\n", me, t)
        :: LIVE(me) -> status[t] = GONE; noting[me] = 1; printf("executor %d: settles task %d\n", me, t)
        :: LIVE(me) && changes > 0 -> changes--; status[t] = OPEN; noting[me] = 1;
            printf("executor %d: settles task %d, for a retry\n", me, t)
        :: !LIVE(me) -> noting[me] = 1; printf("executor %d: drops task %d\n", me, t)
        fi;
        check()
    };
    goto end_idle
}

/* An executor that is late loses its claim, and goes on: another process takes the task. */
proctype taker() {
end_idle:
    atomic { changes > 0 && LIVE(1) -> changes--;
        status[runs[1]] = OPEN; version[runs[1]]++; is_owed = 1;
        printf("reaper: takes task %d of executor 1, which is late\n", runs[1]);
        check()
    };
    goto end_idle
}

/* A process dies between any two of its steps; the reaper takes its task, some time later. */
proctype death() {
end_idle:
    if
    :: atomic { crashes > 0 && !dead[0] -> crashes--; dead[0] = 1; is_owed = 1; printf("executor 0: dies\n"); check() }
    :: atomic { dead[0] && runs[0] != NONE ->
        if
        :: status[runs[0]] == RUNNING && version[runs[0]] == claim[0] -> status[runs[0]] = OPEN; version[runs[0]]++
        :: else
        fi;
        runs[0] = NONE; is_owed = 1;
        printf("reaper: takes the tasks of executor 0\n");
        check()
      }
    fi;
    goto end_idle
}

/* cancel, and the verbs that return a blocked task to the lane of its code */
proctype caller() {
    byte t;
end_idle:
    atomic { changes > 0 && ANY(BLOCKED) -> choose(t, BLOCKED);
        changes--; version[t]++;
        if
        :: status[t] = GONE; printf("cancel: task %d\n", t)
        :: status[t] = OPEN; printf("add: task %d again\n", t)
        fi;
        check()
    };
    goto end_idle
}

init {
    atomic {
        status[0] = OPEN; status[1] = OPEN; status[2] = OPEN; status[NONE] = GONE; /* the last is no task */
        run claimer(0); run claimer(1); run runner(0); run runner(1); run death(); run taker(); run caller()
    }
}
