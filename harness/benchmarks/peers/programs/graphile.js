// graphile-worker on PEER_URL: "graphile.js fill TASKS", or "graphile.js work" with PEER_OPTIONS, its options as JSON.
"use strict";
const fs = require("fs");
const path = require("path");
const { makeWorkerUtils, run } = require("graphile-worker");

const connectionString = process.env.PEER_URL;
const BATCH = 5000;
const FLUSH = 50; // milliseconds

async function fill(tasks) {
  const utils = await makeWorkerUtils({ connectionString });
  await utils.migrate();
  for (let done = 0; done < tasks; done += BATCH) {
    await utils.addJobs(Array(Math.min(BATCH, tasks - done)).fill({ identifier: "nothing", payload: {} }));
  }
  await utils.withPgClient((client) => client.query("ANALYZE"));
  await utils.release();
}

// Monotonic seconds, as doubles, appended to a file from time to time: as harness/benchmarks/peers/recorder.py reads them.
let times = [];

function flush() {
  const some = times;
  times = [];
  if (some.length) fs.appendFileSync(file, Buffer.from(Float64Array.from(some).buffer));
}

const file = path.join(process.env.PEER_FOLDER || ".", `${process.pid}.times`);

async function work() {
  setInterval(flush, FLUSH);
  process.on("exit", flush);
  const worker = { connectionString, ...JSON.parse(process.env.PEER_OPTIONS || "{}") };
  const nothing = () => {
    times.push(Number(process.hrtime.bigint()) / 1e9);
  };
  const runner = await run({ preset: { worker }, taskList: { nothing } });
  await runner.promise;
}

const [word, tasks] = process.argv.slice(2);
(word === "fill" ? fill(Number(tasks)) : work()).catch((error) => {
  console.error(error);
  process.exit(1);
});
