//! The life of a bio, as the deck begins with it: the write in ctracer's recording that waited longest, and a picture of
//! where its time was. All numbers come from the recording.

use std::fmt::Write;

use common::{Error, Result};
use ctracer::tree::{Call, Life, Tree};

/// The picture's name, as if it were a file in `docs/src`.
pub const PICTURE: &str = "life.svg";

/// Where the bar begins, and how long it is.
const LEFT: f64 = 20.0;
const LONG: f64 = 820.0;

/// A write, and where its time was. Times are in nanoseconds.
pub struct Bio {
    bytes: u32,
    /// From submit_bio() to the call of bio_endio().
    took: u64,
    /// The longest time in which none of the functions that get the bio ran.
    wait: u64,
    /// From the call of bio_endio() to its return.
    completing: u64,
    /// The names of the functions before that, each with its start.
    calls: Vec<(String, u64)>,
}

impl Bio {
    /// The write that waited longest.
    pub fn longest(tree: &Tree) -> Result<Self> {
        let ended = tree.lives.iter().filter(|life| life.end.is_some());
        let writes = ended.filter(|life| tree.operation(&life.bio) == "write");
        let longest = writes.map(|life| Self::of(tree, life)).max_by_key(|bio| bio.wait);
        longest.ok_or_else(|| Error::new("the recording has no write that has ended"))
    }

    fn of(tree: &Tree, life: &Life) -> Self {
        let calls: Vec<&Call> = life.calls.iter().map(|call| &tree.calls[*call]).collect();
        // Between two calls, all that have begun may have returned, the first and outermost last.
        let gap = |before: usize| {
            let next = calls[before].place.time;
            let ends = calls[..before].iter().map(|call| call.end.unwrap_or(call.place.time));
            (ends.filter(|end| *end <= next).max().map_or(0, |end| next - end), before)
        };
        let (wait, before) = (1..calls.len()).map(gap).max().unwrap_or_default();
        let name =
            |call: &Call| tree.function(call).map_or_else(String::new, |function| function.name.clone());
        let ending =
            calls.iter().rfind(|call| Some(call.place.time) == life.end && name(call) == "bio_endio");
        let completing = ending.and_then(|call| Some(call.end? - call.place.time)).unwrap_or_default();
        let call = |call: &&Call| (name(call), call.place.time.saturating_sub(life.start));
        Self {
            bytes: life.bio.bytes,
            took: life.duration().unwrap_or_default(),
            wait,
            completing,
            calls: calls[..before].iter().map(call).collect(),
        }
    }

    /// What the slides say of it, by the names in braces.
    pub fn words(&self) -> [(&'static str, String); 4] {
        let share = |part: u64| format!("{:.1} %", 100.0 * part as f64 / self.whole() as f64);
        [
            ("{took}", format!("{:.0} ms", self.took as f64 / 1e6)),
            ("{calls}", self.calls.len().to_string()),
            ("{code}", share(self.submitting() + self.completing)),
            ("{wait}", share(self.wait)),
        ]
    }

    /// The time in which functions had it before the wait.
    fn submitting(&self) -> u64 {
        self.took.saturating_sub(self.wait)
    }

    /// Until bio_endio() has returned.
    fn whole(&self) -> u64 {
        self.took + self.completing
    }

    /// The picture, in the colors of all pictures.
    pub fn picture(&self) -> String {
        let [(_, took), (_, calls), _, (_, wait)] = self.words();
        let palette = include_str!("palette.css");
        let wide = |part: u64| (LONG * part as f64 / self.whole() as f64).max(4.0);
        let (code_wide, end_wide) = (wide(self.submitting()), wide(self.completing));
        let (split, right) = (LEFT + code_wide, LEFT + LONG);
        let (bytes, micros, end) = (self.bytes, self.submitting() / 1_000, right - end_wide);
        let mut svg = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 396" role="img" font-size="18" text-anchor="middle"
     font-family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif">
  <style>
{palette}  </style>
  <rect class="paper" width="860" height="396"/>
  <g id="life">
    <rect class="blue" x="{LEFT}" y="40" width="{LONG}" height="64" rx="4" stroke-width="2"/>
    <text class="ink" x="430" y="80" font-size="22" font-weight="bold">a write of {bytes} bytes: {took}</text>
    <text class="ink" x="{LEFT}" y="26" text-anchor="start" font-family="monospace">submit_bio()</text>
    <text class="ink" x="{right}" y="26" text-anchor="end" font-family="monospace">bio_endio()</text>
  </g>
  <g id="code">
    <rect class="blue" x="{LEFT}" y="144" width="{code_wide:.1}" height="64" stroke-width="2"/>
    <rect class="blue" x="{end:.1}" y="144" width="{end_wide:.1}" height="64" stroke-width="2"/>
    <path class="line" d="M{LEFT} 210L{LEFT} 270M{split:.1} 210L{right} 270" stroke-dasharray="5 4"/>
"#
        );
        let at = |start: u64| LEFT + LONG * (start as f64 / self.submitting().max(1) as f64).min(1.0);
        for (nth, (_, start)) in self.calls.iter().enumerate() {
            let (from, to) = (at(*start), self.calls.get(nth + 1).map_or(right, |(_, next)| at(*next)));
            let _ = writeln!(
                svg,
                r#"    <rect class="blue" x="{from:.1}" y="270" width="{:.1}" height="54"/>"#,
                to - from
            );
        }
        let [first, last] = [self.calls.first(), self.calls.last()]
            .map(|call| call.map_or_else(String::new, |(name, _)| format!("{name}()")));
        let _ = write!(
            svg,
            r#"    <text class="ink" x="430" y="352">{calls} functions, from {first} to {last}, in {micros} µs</text>
  </g>
  <g id="wait">
    <rect class="gray" x="{split:.1}" y="144" width="{wait_wide:.1}" height="64" stroke-width="2" stroke-dasharray="6 5"/>
    <text class="ink" x="430" y="170" font-size="22" font-weight="bold">{wait}: it waits</text>
    <text class="dim" x="430" y="196">for a queue, or for the disk?</text>
  </g>
</svg>
"#,
            wait_wide = end - split,
        );
        svg
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ctracer::recording::Recording;

    use super::*;

    #[test]
    fn the_parts_are_the_whole() {
        let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ctracer.rec");
        let tree = Tree::new(Recording::read(&recording).unwrap());
        let bio = Bio::longest(&tree).unwrap();
        assert!(tree.lives.iter().filter_map(Life::duration).any(|took| took == bio.took));
        assert!(bio.completing > 0 && bio.wait < bio.took);
        assert!(bio.calls.iter().all(|(name, start)| !name.is_empty() && *start <= bio.submitting()));
        // The pieces of the bar are as long as the bar.
        let svg = bio.picture();
        let wide = |group: &str| -> f64 {
            let rect = svg.split_once(&format!("<g id=\"{group}\">")).unwrap().1;
            rect.split_once("width=\"").unwrap().1.split_once('"').unwrap().0.parse().unwrap()
        };
        let back = (LONG * bio.completing as f64 / bio.whole() as f64).max(4.0);
        assert!((wide("code") + back + wide("wait") - wide("life")).abs() < 0.2, "{svg}");
        assert_eq!(svg.matches("height=\"54\"").count(), bio.calls.len());
    }
}
