/* What the tables hold, what processes know, and what is remembered only to judge by (ghosts). */

#define PROCESSES (STEADY + MORTAL)   /* executors; the last MORTAL of them may be paused past their lease, or killed */
#define IDS (PROCESSES + REBIRTHS)    /* rows that the table of executors may ever have */

/* TaskStatus, and Then: what a settlement wants to become of the task. RETRY is AGAIN here: only the times differ. */
mtype = { PENDING, RUNNING, FAILED };
mtype = { GONE, AGAIN, FAIL, RESCUED, RELEASED };

/* Ways of adding to a task that exists: REPLACE, and "earliest" or "latest" where the new time is preferred; KEEP, and
   "raise", which refuses what KEEP keeps; WORSE is "earliest" or "latest" where the other time is preferred. */
mtype = { REPLACE, KEEP, WORSE };

/* The row of the one task of this model; `exists` tells whether there is one. */
bit exists;
mtype status;
byte id, version, executor, schedule, deferred;
bit cancel_requested;
byte last_id;                         /* ids are never used again */

/* The rows of executors, by their id; 0 is none. */
bit alive[IDS + 1];
byte last_executor;

/* STOPPING: it runs, was cancelled meanwhile, and nothing is to come after. To an add it is as good as absent. */
#define IS_STOPPING (exists && status == RUNNING && cancel_requested && deferred == 0)

/* What each process knows of itself: its present row. */
byte lease[PROCESSES];

/* What is left of the budgets that make the model finite. */
byte claims = CLAIMS;                 /* candidates that executors read, all together */
byte losses = LOSSES;                 /* answers of the database that do not arrive, and time-outs */
byte rescues = RESCUES;               /* orphans that reapers read */

/* Ghosts. Who has seen the claim under which the row is RUNNING, whatever the versions say: executors, then reapers. */
bit current[PROCESSES + REAPERS];
byte runs_as[PROCESSES];              /* this process is in the handler, in the name of this row of executors */
byte calls;                           /* calls accepted so far; an add's schedule is the number of its call */
bit last_is_add;
byte ended;                           /* the last schedule whose run settled it for good */
#if BULKS > 0
byte bulks = BULKS;                   /* what is left of the budget of adds in bulk */
bit looking;                          /* one of them is between its look and its INSERT */
bit was_armed;                        /* since its look there was a task that something was to come of */
#define CALLS_MADE (calls + looking)
#else
#define CALLS_MADE calls
#endif

#define LIVE(p) (runs_as[p] != 0 && alive[runs_as[p]])
#if STEADY + MORTAL == 3
#define LIVE_CLAIMS (LIVE(0) + LIVE(1) + LIVE(2))
#define IS_LEASE_OF_SOMEBODY(e) (e == lease[0] || e == lease[1] || e == lease[2])
#else
#define LIVE_CLAIMS (LIVE(0) + LIVE(1))
#define IS_LEASE_OF_SOMEBODY(e) (e == lease[0] || e == lease[1])
#endif

/* What must hold after every write. */
inline check() {
    /* no two live claims: of executors that count as alive, one at most runs the task */
    assert(LIVE_CLAIMS <= 1);
    /* no accepted schedule lost: the last call was an add => the task stands at its schedule, or will, or it has run */
    assert(calls == 0 || !last_is_add || ended == calls || (exists && (schedule == calls || deferred == calls)));
    /* the last accepted call wins: it was a cancel => nothing is left but a run that was asked to stop */
    assert(last_is_add || !exists || (status == RUNNING && cancel_requested && deferred == 0));
#if BULKS > 0
    was_armed = looking && (was_armed || (exists && !IS_STOPPING));
#endif
    /* never stuck: an executor holds the claim, or it can be reaped */
    assert(!exists || status != RUNNING || !alive[executor] || IS_LEASE_OF_SOMEBODY(executor));
    /* what only a run can have goes with it */
    assert(!exists || status == RUNNING || (deferred == 0 && !cancel_requested && executor == 0))
}

inline forget_row() {
    exists = 0; id = 0; version = 0; status = 0; executor = 0; schedule = 0; deferred = 0; cancel_requested = 0
}

/* The claim has ended, or another one begins: executors that knew of it know of a claim that is gone. */
inline end_claim() {
    current[0] = 0;
    current[1] = 0;
#if STEADY + MORTAL + REAPERS > 2
    current[2] = 0;
#endif
#if STEADY + MORTAL + REAPERS > 3
    current[3] = 0;
#endif
#if STEADY + MORTAL + REAPERS > 4
    current[4] = 0;
#endif
}
