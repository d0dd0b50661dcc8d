//! The views that pages are made of, and what they say, worked out from the JSON alone.

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub struct View(pub Value);

impl View {
    /// A part of a real recording, of Linux 6.12: 445 calls and 16 lives, on two disks and a partition.
    pub fn real() -> Self {
        Self(serde_json::from_str(include_str!("view.json")).unwrap())
    }

    /// The real one again and again, until there are so many calls.
    pub fn of_calls(count: usize) -> Self {
        let real = Self::real();
        let (calls, lives) = (real.count(), real.0["lives"].as_array().unwrap());
        let period = real.end() + 1_000_000;
        let mut view = real.0.clone();
        let moved =
            |value: &Value, by: i64| json!(value.as_i64().unwrap() + if value == -1 { 0 } else { by });
        for round in 1..count.div_ceil(calls) as i64 {
            for (name, column) in view["calls"].as_object_mut().unwrap() {
                let by = match name.as_str() {
                    "life" => round * lives.len() as i64,
                    "parent" => round * calls as i64,
                    "start" => round * period,
                    _ => 0,
                };
                let again = real.0["calls"][name].as_array().unwrap();
                let again = again.iter().map(|value| if by == 0 { value.clone() } else { moved(value, by) });
                column.as_array_mut().unwrap().extend(again);
            }
            for life in lives {
                let mut life = life.clone();
                for time in ["start", "end"] {
                    life[time] = moved(&life[time], round * period);
                }
                let calls = life["calls"].as_array().unwrap().iter();
                life["calls"] = calls.map(|call| moved(call, round * real.count() as i64)).collect();
                view["lives"].as_array_mut().unwrap().push(life);
            }
        }
        view["end_ns"] = json!(view["start_ns"].as_i64().unwrap() + period * count.div_ceil(calls) as i64);
        Self(view)
    }

    /// The real one without a single call.
    pub fn empty() -> Self {
        let mut view = Self::real().0;
        for column in view["calls"].as_object_mut().unwrap().values_mut() {
            *column = json!([]);
        }
        view["lives"] = json!([]);
        Self(view)
    }

    pub fn count(&self) -> usize {
        self.0["calls"]["start"].as_array().unwrap().len()
    }

    pub fn number(&self, column: &str, call: usize) -> i64 {
        self.0["calls"][column][call].as_i64().unwrap()
    }

    pub fn name(&self, call: usize) -> &str {
        self.0["functions"][self.number("function", call) as usize]["name"].as_str().unwrap()
    }

    pub fn task(&self, call: usize) -> String {
        let task = &self.0["tasks"][self.number("task", call) as usize];
        format!("{}-{}", task["comm"].as_str().unwrap(), task["tid"])
    }

    /// When a call was over, as far as that is known.
    pub fn until(&self, call: usize) -> i64 {
        self.number("start", call) + self.number("duration", call).max(0)
    }

    pub fn end(&self) -> i64 {
        self.0["end_ns"].as_i64().unwrap() - self.0["start_ns"].as_i64().unwrap()
    }

    /// The calls of a life.
    pub fn life(&self, life: usize) -> Vec<usize> {
        let calls = self.0["lives"][life]["calls"].as_array().unwrap().iter();
        calls.map(|call| call.as_u64().unwrap() as usize).collect()
    }

    /// The calls of a life, all that they made before its end, and those below the call that ended it, in the order of
    /// the tree.
    pub fn story(&self, life: usize) -> Vec<usize> {
        let calls = self.life(life);
        let (end, last) = (self.0["lives"][life]["end"].as_i64().unwrap(), *calls.last().unwrap());
        let is_in = |call: &usize| {
            calls.iter().any(|outer| outer == call || self.is_within(*call, *outer))
                && (self.number("start", *call) <= end || self.is_within(*call, last))
        };
        self.tree(|call| is_in(&call))
    }

    /// Where the time of a life went, moment for moment. Its last call must be the one that ended it.
    pub fn spent(&self, life: usize) -> Spent {
        let story = self.story(life);
        let (start, end) = (&self.0["lives"][life]["start"], self.0["lives"][life]["end"].as_i64().unwrap());
        let (start, last) = (start.as_i64().unwrap(), *self.life(life).last().unwrap());
        let (to, ends) = (self.until(last), |call: usize| call == last || self.is_within(call, last));
        let over = |call: usize| self.until(call).min(if ends(call) { to } else { end });
        let mut ran: Vec<usize> =
            story.iter().copied().filter(|call| over(*call) > self.number("start", *call)).collect();
        ran.sort_unstable();
        let mut moments: Vec<i64> =
            ran.iter().flat_map(|call| [self.number("start", *call), over(*call)]).collect();
        moments.sort_unstable();
        moments.dedup();
        let mut spent = Spent { to, whole: to - start, ..Spent::default() };
        spent.own.extend(story.iter().map(|call| (*call, 0)));
        for moment in moments.windows(2) {
            let (from, time) = (moment[0], moment[1] - moment[0]);
            let inner =
                ran.iter().rfind(|call| self.number("start", **call) <= from && over(**call) >= moment[1]);
            let makes_calls =
                |call: usize| story.iter().any(|other| self.number("parent", *other) == call as i64);
            let is_gap = inner.is_none_or(|call| makes_calls(*call) && time * 20 >= spent.whole);
            if is_gap {
                spent.gaps.push(time);
            } else {
                *spent.own.entry(*inner.unwrap()).or_default() += time;
            }
        }
        let request = &self.0["lives"][life]["request"];
        spent.phases = match [0, 1, 2].map(|nth| request[nth].as_i64()) {
            [Some(made), Some(issued), Some(done)] => {
                [made - start, issued - made, done - issued, to - done, 0]
            }
            _ => [0, 0, 0, to - end, end - start],
        };
        spent
    }

    /// The calls for which something holds, in the order of the tree: each right before those that it made.
    pub fn tree(&self, holds: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut children = vec![Vec::new(); self.count() + 1];
        for call in 0..self.count() {
            children[(self.number("parent", call) + 1) as usize].push(call);
        }
        let (mut order, mut left) = (Vec::new(), children[0].clone());
        left.reverse();
        while let Some(call) = left.pop() {
            order.push(call);
            left.extend(children[call + 1].iter().rev());
        }
        order.retain(|call| holds(*call));
        order
    }

    /// Whether a call is another's ancestor.
    pub fn is_within(&self, mut call: usize, ancestor: usize) -> bool {
        loop {
            match self.number("parent", call) {
                -1 => return false,
                parent if parent as usize == ancestor => return true,
                parent => call = parent as usize,
            }
        }
    }
}

/// Where the time of a life went.
#[derive(Debug, Default)]
pub struct Spent {
    /// When the call that ended it returned.
    pub to: i64,
    /// From the beginning of its life to then.
    pub whole: i64,
    /// In each of its calls, and in none that this call made.
    pub own: BTreeMap<usize, i64>,
    /// The long times in between.
    pub gaps: Vec<i64>,
    /// Before its request, in the queue, in the disk, completing; and what comes before that, without a request.
    pub phases: [i64; 5],
}
