/* The statements of django_delayed_tasks/store, each as atomic as the database makes it. */

#ifdef SETTLE_WITHOUT_FENCE
#define FENCE(of_id, of_version) (exists && id == of_id)
#else
#define FENCE(of_id, of_version) (exists && id == of_id && version == of_version)
#endif

#ifdef REAP_WITHOUT_FENCE
#define FENCE_OF_REAP(of_id, of_version) (exists && id == of_id)
#else
#define FENCE_OF_REAP(of_id, of_version) (exists && id == of_id && version == of_version)
#endif

/* schedules.add.add: whether it writes, so (if_exists) as the task is; if not, the task is KEPT, or the call is refused */
#ifdef KEEP_IGNORES_STOPPING
#define IS_ABSENT_FOR_KEEP (!exists)
#else
#define IS_ABSENT_FOR_KEEP (!exists || IS_STOPPING)
#endif
#ifdef WORSE_IGNORES_STOPPING
#define IS_BESIDE_NOTHING (exists && status == RUNNING && deferred == 0 && !cancel_requested)
#else
#define IS_BESIDE_NOTHING (exists && status == RUNNING && deferred == 0)
#endif
#define IS_WRITTEN(if_exists) (if_exists == REPLACE || (if_exists == KEEP && IS_ABSENT_FOR_KEEP) || \
    (if_exists == WORSE && (!exists || IS_BESIDE_NOTHING || status == FAILED)))

/* schedules.add.add that leaves the task as it is: an accepted call too, of a task that something is to come of */
inline kept() {
    d_step {
        last_is_add = 1;
        printf("add: keeps (%d, %d)\n", id, version);
        check()
    }
}

/* schedules.add.add that writes; schedules.verbs.rescheduling does the same to a task that exists */
inline add() {
    d_step {
        calls++;
        last_is_add = 1;
        if
        :: !exists ->
            last_id++;
            exists = 1; id = last_id; version = 0; status = PENDING; schedule = calls;
            printf("add %d: created, now (%d, %d)\n", calls, id, version)
#ifndef ADD_DOES_NOT_DEFER
        :: exists && status == RUNNING ->
            deferred = calls;
            printf("add %d: deferred, during the run of (%d, %d)\n", calls, id, version)
        :: exists && status != RUNNING ->
#else
        :: exists ->
            executor = 0; cancel_requested = 0;
#endif
            schedule = calls; status = PENDING;
#ifndef ADD_WITHOUT_VERSION
            version++;
#endif
            printf("add %d: replaced, now (%d, %d)\n", calls, id, version)
        fi;
        check()
    }
}

#if BULKS > 0
/* schedules.add_many._existing: which of a batch that keeps are STOPPING; these are then added one by one, in either case in
   the transaction that writes the batch */
inline look(was_stopping) {
    d_step {
#ifdef BULK_DOES_NOT_LOOK
        was_stopping = 0;
#else
        was_stopping = IS_STOPPING;
#endif
        looking = 1;
        printf("add in bulk: looks\n");
        check()
    }
}

/* schedules.add_many._write: creates the task, or leaves the one there is as it is, whatever it is by now. The latter is right
   if there was a moment at which something was to come of it: the call came then, a cancellation after it. */
inline insert_or_keep() {
    if
    :: !exists -> looking = 0; add()
    :: exists ->
        d_step {
            assert(was_armed); /* nothing is kept of which nothing comes */
            looking = 0; was_armed = 0;
            printf("add in bulk: keeps (%d, %d)\n", id, version)
        }
    fi
}
#endif

/* schedules.verbs.cancel: its UPDATE comes first and locks the row, so that the transaction is one step */
inline cancel() {
    d_step {
        calls++;
        last_is_add = 0;
        if
        :: !exists -> printf("cancel %d: missing\n", calls)
        :: exists && status == RUNNING ->
            cancel_requested = 1;
#ifndef CANCEL_KEEPS_DEFERRED
            deferred = 0;
#endif
            printf("cancel %d: asked (%d, %d) to stop\n", calls, id, version)
        :: exists && status != RUNNING ->
            printf("cancel %d: cancelled (%d, %d)\n", calls, id, version);
            forget_row()
        fi;
        check()
    }
}

/* claiming.compare_and_set.read_candidates: what is due (time is not modelled: any PENDING task may be). For this and the other
   reads a condition says when they find something: reading nothing changes nothing. */
#define IS_DUE (exists && status == PENDING)
inline read_candidates(me, of_id, of_version, of_schedule) {
    d_step {
        of_id = id; of_version = version; of_schedule = schedule;
        printf("executor %d: reads (%d, %d)\n", me, id, version)
    }
}

/* claiming.compare_and_set.take: the UPDATE that repeats status and version; is_won tells that it changed the row */
inline take(me, in_name_of, of_id, of_version, of_schedule, is_won) {
    d_step {
        is_won = exists && id == of_id && status == PENDING && version == of_version;
        if
        :: is_won ->
            assert(schedule == of_schedule); /* no run at a schedule that was replaced */
            status = RUNNING;
            executor = in_name_of;
#ifndef CLAIM_WITHOUT_VERSION
            version++;
#endif
            of_version = version;
            end_claim();
            current[me] = 1
        :: else
        fi;
        check()
    }
}

/* settling.settle._settle_gone, its first statement: the history, which others cannot see before the COMMIT */
inline record(of_id, of_version, is_found) {
    d_step { is_found = FENCE(of_id, of_version) && status == RUNNING }
}

/* settling.settle._settle_gone, its second statement and the COMMIT */
inline delete_gone(me, of_id, of_version, of_schedule, is_deleted) {
    d_step {
#ifdef DELETE_IGNORES_DEFERRED
        is_deleted = FENCE(of_id, of_version) && status == RUNNING;
#else
        is_deleted = FENCE(of_id, of_version) && status == RUNNING && deferred == 0;
#endif
        if
        :: is_deleted ->
            assert(current[me]); /* no stale settlement */
            ended = of_schedule;
            printf("    (%d, %d) is done and gone\n", id, version);
            forget_row();
            end_claim()
        :: else
        fi;
        check()
    }
}

/* settling.settle._settle_locked with row_changes: the row is locked and looked at first, so that the transaction is one step */
inline settle_locked(me, is_held, then, of_schedule) {
    d_step {
        if
        :: is_held && status == RUNNING ->
            assert(current[me]); /* no stale settlement */
            if
#ifdef CANCEL_OUTLIVES_ADD
            :: deferred != 0 && cancel_requested -> forget_row()
            :: deferred != 0 && !cancel_requested -> schedule = deferred; status = PENDING
#else
            :: deferred != 0 -> schedule = deferred; status = PENDING
#endif
            :: deferred == 0 && (then == GONE || cancel_requested) ->
                ended = (then == GONE -> of_schedule : ended);
                printf("    (%d, %d) is gone\n", id, version);
                forget_row()
            :: deferred == 0 && then != GONE && !cancel_requested -> status = (then == FAIL -> FAILED : PENDING)
            fi;
            if
            :: exists ->
#ifndef TAKEN_WITHOUT_VERSION
                version = (then == RESCUED || then == RELEASED -> version + 1 : version);
#endif
                executor = 0; cancel_requested = 0; deferred = 0;
                printf("    (%d, %d) is %e at schedule %d\n", id, version, status, schedule)
            :: else
            fi;
            end_claim()
        :: else -> printf("    the claim is gone: nothing is written\n")
        fi;
        check()
    }
}

/* settling.reap._orphans: a RUNNING task whose executor is not alive */
#define IS_ORPHAN (exists && status == RUNNING && !alive[executor])
inline orphans(me, of_id, of_version) {
    d_step {
        of_id = id; of_version = version; current[me] = 1;
        printf("reaper %d: finds (%d, %d)\n", me, id, version)
    }
}

/* claiming.claimed_task.held_by, for a claim that the process knows nothing of */
#define IS_HELD_BY(in_name_of) (exists && status == RUNNING && executor == in_name_of)
inline held_by(me, of_id, of_version) {
    d_step { of_id = id; of_version = version; current[me] = 1 }
}

/* executors.register */
inline register(p) {
    d_step {
        last_executor++;
        alive[last_executor] = 1;
        lease[p] = last_executor;
        printf("executor %d: registered, its row is %d\n", p, lease[p]);
        check()
    }
}

/* executors.renew: UPDATE ... WHERE id = ... AND alive = TRUE; false when it was declared dead */
inline renew(p, is_ours) {
    d_step {
#ifdef RENEW_REVIVES
        alive[lease[p]] = 1;
#endif
        is_ours = alive[lease[p]];
        check()
    }
}

/* executors.declare_expired_dead, and executors.retire. When a lease expires is not modelled: that of any mortal may
   have, at any moment. */
inline declare_expired_dead(e) {
    d_step {
        alive[e] = 0;
        printf("reaper: declares row %d dead\n", e);
        check()
    }
}
