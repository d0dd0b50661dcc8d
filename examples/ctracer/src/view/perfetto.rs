//! A recording as a trace for Perfetto and Chrome, in the trace-event format. Times are in microseconds. Each thread
//! has a track with its calls. The interrupts of each CPU have a track, and so does each CPU's idle task. Lives are
//! asynchronous events.

use common::Result;
use serde::Serialize;
use serde_json::{Value, json};

use crate::tree::{Call, Tree};

/// Made-up process ids for tracks that don't belong to a process.
const CPUS: u32 = 0;
const LIVES: u32 = u32::MAX;

#[derive(Serialize)]
struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<Value>,
    #[serde(rename = "displayTimeUnit")]
    unit: &'static str,
}

/// The trace.
pub fn trace(tree: &Tree) -> Result<String> {
    let micros = |ns: u64| ns as f64 / 1000.0;
    let mut tracks = std::collections::BTreeMap::from([
        ((CPUS, None), "CPUs".to_owned()),
        ((LIVES, None), format!("lives of {}s", tree.header.class)),
    ]);
    let mut events = Vec::new();
    for call in &tree.calls {
        let (pid, tid, name) = track(tree, call);
        tracks.insert((pid, Some(tid)), name);
        if let (true, Some(task)) = (pid != CPUS, tree.tasks.get(call.task)) {
            tracks.insert((pid, None), task.comm.clone());
        }
        let function = tree.function(call);
        let mut args = json!({ "object": format!("0x{:x}", call.object), "cpu": call.place.cpu });
        if let Some(bio) = &call.bio {
            args["operation"] = tree.operation(bio).into();
            args["flags"] = tree.header.flags.names(bio.opf).into();
            args["sector"] = bio.sector.into();
            args["bytes"] = bio.bytes.into();
            if bio.device != 0 {
                args["device"] = tree.device(bio.device, call.place.time).into();
            }
        }
        if let Some(returned) = tree.returned(call) {
            args["returned"] = returned.into();
        }
        let start = micros(call.place.time);
        let mut event = json!({
            "name": function.map_or("?", |function| &function.name), "cat": "call", "ph": "X",
            "ts": start, "dur": 0, "pid": pid, "tid": tid, "args": args,
        });
        match call.end {
            Some(end) => event["dur"] = micros(end.saturating_sub(call.place.time)).into(),
            // We didn't see its return, so we show it as a moment.
            None => event["ph"] = "i".into(),
        }
        events.push(event);
    }
    for (nth, life) in tree.lives.iter().enumerate() {
        let name = format!("{} {} + {} bytes", tree.operation(&life.bio), life.bio.sector, life.bio.bytes);
        let args = json!({ "object": format!("0x{:x}", life.object), "device": tree.device(life.bio.device, life.start) });
        for (phase, time) in [("b", Some(life.start)), ("e", life.end)] {
            let Some(time) = time else { continue };
            events.push(json!({
                "name": name, "cat": "life", "ph": phase, "id": nth, "ts": micros(time), "pid": LIVES, "tid": 0,
                "args": args,
            }));
        }
    }
    let named = tracks.into_iter().map(|((pid, tid), name)| {
        let kind = if tid.is_some() { "thread_name" } else { "process_name" };
        json!({ "name": kind, "ph": "M", "pid": pid, "tid": tid.unwrap_or_default(), "args": { "name": name } })
    });
    let events = named.chain(events).collect();
    super::json(&Trace { events, unit: "ns" })
}

/// The process, thread and name of the track that a call is on.
fn track(tree: &Tree, call: &Call) -> (u32, u32, String) {
    let cpu = call.place.cpu;
    let task = tree.tasks.get(call.task);
    match task {
        Some(task) if !call.place.interrupt && task.tid != 0 => (task.pid, task.tid, task.comm.clone()),
        _ if call.place.interrupt => (CPUS, 2 * u32::from(cpu) + 1, format!("interrupts of CPU {cpu}")),
        _ => (CPUS, 2 * u32::from(cpu) + 2, format!("idle task of CPU {cpu}")),
    }
}
