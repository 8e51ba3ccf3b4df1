/* One task, claimed by several executors, reaped, added and cancelled meanwhile. README.md says what this stands for.
 *
 * Sizes (-D): STEADY and MORTAL executors, REBIRTHS repeated registrations, REAPERS; CLAIMS, LOSSES and RESCUES in all, and
 * CALLS by callers, of which BULKS at most are adds in bulk.
 */

#include "state.pml"
#include "store.pml"

inline forget() {
    my_id = 0; my_version = 0; my_schedule = 0; then = 0; is_ok = 0; in_name_of = 0
}

/* executor/claiming/poller.py, running/worker_pool.py, settling/settler.py of one process, a task at a time. Each atomic block is one transaction and
   what the process makes of its answer; between two of them others may do anything, for any length of time. */
proctype process(byte me) {
    byte in_name_of, my_id, my_version, my_schedule;
    mtype then;
    bit is_ok;

end_idle:
    if
    :: atomic { claims > 0 && IS_DUE ->
        claims--;
        in_name_of = lease[me]; /* which may be out of date when the claim is made */
        read_candidates(me, my_id, my_version, my_schedule);
        goto claiming
      }
    :: atomic { losses < LOSSES && IS_HELD_BY(lease[me]) -> /* unanswered_claims.UnansweredClaims._release_all: the claim's answer was lost */
        held_by(me, my_id, my_version);
        then = RELEASED
      };
      goto settle
    fi;

claiming:
    atomic {
        take(me, in_name_of, my_id, my_version, my_schedule, is_ok);
        if
        :: !is_ok -> forget(); goto end_idle
        :: is_ok ->
            printf("executor %d: claims (%d, %d) at schedule %d\n", me, my_id, my_version, my_schedule);
            runs_as[me] = in_name_of;
            in_name_of = 0;
            d_step { check() }
        :: is_ok && losses > 0 -> /* the answer is lost: nothing is known of the claim here */
            printf("executor %d: claims (%d, %d), and does not know it\n", me, my_id, my_version);
            losses--; forget(); goto end_idle
        fi
    };
    /* the handler runs, and ends one way or another, or was not even started */
    atomic {
        runs_as[me] = 0;
        if
        :: then = GONE
        :: then = AGAIN
        :: then = FAIL
        :: then = RELEASED
        fi;
settle:
        printf("executor %d: settles (%d, %d) as %e\n", me, my_id, my_version, then);
        if
        :: then == GONE -> record(my_id, my_version, is_ok)
        :: then != GONE -> goto one
        fi
    };
    atomic {
        if
        :: is_ok -> delete_gone(me, my_id, my_version, my_schedule, is_ok)
        :: else
        fi;
        if
        :: is_ok -> is_ok = 0; goto settled
        :: else
        fi
    };
    atomic {
        !is_ok;
one:    settle_locked(me, FENCE(my_id, my_version), then, my_schedule);
settled:
        if
        :: forget(); goto end_idle
        :: losses > 0 -> losses-- /* the COMMIT's answer is lost */
        :: losses > 0 && then == AGAIN -> losses--; then = GONE /* a time-out took the task from a run that ends well */
        fi
    };
    goto settle
}

/* executor/membership/lease.py of a mortal executor: renews, or finds itself declared dead and registers under a fresh id.
   While it is alive nothing changes, for the length of a lease is not modelled. */
proctype heartbeat(byte me) {
    bit is_ours;

end_waiting:
    do
    :: atomic { !alive[lease[me]] && last_executor < IDS ->
        renew(me, is_ours);
        if
        :: !is_ours -> register(me)
        :: is_ours -> is_ours = 0
        fi
      }
    od
}

/* store/settling/reap.py, reap(): three transactions; housekeeping of any executor calls it, so there may be several */
proctype reaper(byte me) {
    byte my_id, my_version;

end_waiting:
    do
    :: atomic { alive[lease[STEADY]] -> declare_expired_dead(lease[STEADY]) }
#if MORTAL > 1
    :: atomic { alive[lease[STEADY + 1]] -> declare_expired_dead(lease[STEADY + 1]) }
#endif
    :: atomic { rescues > 0 && IS_ORPHAN -> orphans(me, my_id, my_version); rescues-- };
      atomic {
        if
        :: printf("reaper %d: rescues (%d, %d)\n", me, my_id, my_version);
           settle_locked(me, FENCE_OF_REAP(my_id, my_version), RESCUED, 0)
        :: printf("reaper %d: gives (%d, %d) up, for its rescues are used up\n", me, my_id, my_version);
           settle_locked(me, FENCE_OF_REAP(my_id, my_version), FAIL, 0)
        fi;
        my_id = 0; my_version = 0; current[me] = 0
      }
    od
}

/* api.add_task and cancel_task, by any caller: each is one transaction, so that one caller stands for many */
proctype caller() {
    mtype if_exists;

    do
    :: atomic { CALLS_MADE < CALLS ->
        if
        :: if_exists = REPLACE
        :: if_exists = KEEP
        :: if_exists = WORSE
        fi;
        if
        :: IS_WRITTEN(if_exists) -> add()
        :: else -> kept()
        fi;
        if_exists = 0
      }
    :: atomic { CALLS_MADE < CALLS -> cancel() }
    :: calls == CALLS -> break
    od
}

#if BULKS > 0
/* api.add_tasks, if_exists="keep" or "raise": another caller, since others may call between its two statements */
proctype bulk_caller() {
    bit was_stopping;

end_waiting:
    do
    :: atomic { bulks > 0 && CALLS_MADE < CALLS -> bulks--; look(was_stopping) };
       atomic {
        if
        :: was_stopping && IS_WRITTEN(KEEP) -> looking = 0; was_stopping = 0; add()
        :: was_stopping && !IS_WRITTEN(KEEP) -> looking = 0; was_stopping = 0; kept()
        :: !was_stopping -> insert_or_keep()
        fi
       }
    od
}
#endif

init {
    byte p;

    atomic {
        for (p : 0 .. PROCESSES - 1) { register(p) }
        for (p : 0 .. PROCESSES - 1) { run process(p) }
        for (p : STEADY .. PROCESSES - 1) { run heartbeat(p) }
        for (p : PROCESSES .. PROCESSES + REAPERS - 1) { run reaper(p) }
        run caller();
#if BULKS > 0
        run bulk_caller();
#endif
        p = 0
    }
}
