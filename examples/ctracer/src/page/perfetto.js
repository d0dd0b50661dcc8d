// The same trace for Perfetto as `ctracer --perfetto` writes, saved from the page.
import { calls, count, lives, view } from "./model.js";
import { byId, labels } from "./text.js";

const CPUS = 0, LIVES = 2 ** 32 - 1; // made-up process ids for tracks that don't belong to a process

function trackOf(call) {
  const cpu = calls.cpu[call], { pid, tid, comm } = view.tasks[calls.task[call]];
  if (calls.interrupt[call] > 0) return [CPUS, 2 * cpu + 1, "interrupts of CPU " + cpu];
  return tid ? [pid, tid, comm] : [CPUS, 2 * cpu + 2, "idle task of CPU " + cpu];
}

export function trace() {
  const micros = (ns) => (view.start_ns + ns) / 1000, tracks = new Map(), events = [];
  const name = (pid, tid, text) => tracks.set(pid + " " + (tid ?? -1), { pid, tid, text });
  name(CPUS, null, "CPUs");
  name(LIVES, null, `lives of ${view.class}s`);
  for (let call = 0; call < count; call++) {
    const [pid, tid, text] = trackOf(call), device = calls.device[call];
    name(pid, tid, text);
    if (pid !== CPUS) name(pid, null, text);
    const args = { object: view.objects[calls.object[call]], cpu: calls.cpu[call] };
    if (calls.operation[call] >= 0) {
      args.operation = labels.operation(calls.operation[call]);
      args.flags = view.flag_names[calls.flags[call]];
      Object.assign(args, { sector: calls.sector[call], bytes: calls.bytes[call] });
      if (device >= 0) args.device = labels.device(device);
    }
    if (calls.returned[call] != null) args.returned = calls.returned[call];
    const dur = Math.max(calls.duration[call], 0) / 1000, ph = calls.duration[call] < 0 ? "i" : "X";
    const event = { name: labels.function(calls.function[call]), cat: "call", ph, ts: micros(calls.start[call]) };
    events.push({ ...event, dur, pid, tid, args });
  }
  lives.forEach(({ operation, sector, bytes, object, device, start, end }, id) => {
    const name = `${labels.operation(operation)} ${sector} + ${bytes} bytes`;
    const args = { object: view.objects[object], device: labels.device(device) };
    for (const [ph, time] of [["b", start], ["e", end]]) {
      if (time >= 0) events.push({ name, cat: "life", ph, id, ts: micros(time), pid: LIVES, tid: 0, args });
    }
  });
  const named = [...tracks.values()].map(({ pid, tid, text }) => {
    return { name: tid === null ? "process_name" : "thread_name", ph: "M", pid, tid: tid ?? 0, args: { name: text } };
  });
  return { traceEvents: [...named, ...events], displayTimeUnit: "ns" };
}

// Saves it, and says where to open it.
export function save() {
  const file = new Blob([JSON.stringify(trace())], { type: "application/json" }), link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = "ctracer.perfetto.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  byId("saved").showModal();
}
