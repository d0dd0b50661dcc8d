//! Heat maps of latency: time goes down, latency goes right, and the color shows the count. Each row is a histogram.
//!
//! The scale of colors is fixed and logarithmic. So we can print rows one by one, you can compare rows and runs, and a
//! single slow request stays visible next to a million fast ones.

use std::fmt::Write;

use serde::Serialize;

/// The number of shades. The first is for a count of 1, each next one for twice as much, and the last one for
/// everything above.
const SHADES: usize = 9;

/// The characters for the shades where there is no color. The first is for a count of 0.
const CHARACTERS: [char; SHADES + 1] = [' ', '.', ':', '-', '=', '+', '*', '#', '%', '@'];

/// The shades in a terminal with 256 colors, from dark red to light yellow.
const COLOURS: [u8; SHADES] = [52, 88, 124, 160, 202, 208, 214, 220, 228];

/// The same shades in an SVG picture.
const PAINTS: [&str; SHADES] =
    ["#780000", "#960000", "#b80000", "#d70000", "#ff5f00", "#ff8700", "#ffaf00", "#ffd700", "#ffff87"];

/// The number of slots in a row.
pub const SLOTS: usize = 96;

/// On a logarithmic scale, each power of two is divided into this many slots.
const PARTS: usize = 4;

/// Columns of the terminal for the time and the space after it.
const TIME: usize = 9;

/// The shade of a count: 0 for none.
fn shade(count: u64) -> usize {
    if count == 0 { 0 } else { (count.ilog2() as usize + 1).min(SHADES) }
}

/// How a program divides latencies, in microseconds, into slots. The last slot also holds everything above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Each power of two is divided into four equal slots. The first slots are narrower than a microsecond and stay
    /// empty.
    Log,
    /// Each slot has this width, in microseconds.
    Linear(u64),
}

impl Scale {
    /// The smallest latency of a slot, in microseconds.
    pub fn from(self, slot: usize) -> u64 {
        match self {
            Self::Linear(width) => width.saturating_mul(slot as u64),
            Self::Log => {
                let power = 1_u64 << (slot / PARTS).min(60);
                power + power * (slot % PARTS) as u64 / PARTS as u64
            }
        }
    }

    /// How many neighboring slots share one column, to make the row fit.
    fn merged(self, columns: usize) -> usize {
        let room = columns.saturating_sub(TIME + 1).max(1);
        match self {
            // A power of two stays whole, or is cut into equal parts.
            Self::Log => [1, 2].into_iter().find(|merged| SLOTS / merged <= room).unwrap_or(PARTS),
            Self::Linear(_) => SLOTS.div_ceil(room),
        }
    }
}

/// A short form of a latency, such as `16ms` or `1.5ms`.
fn short(us: u64) -> String {
    let (unit, name) = match us {
        0..1000 => return format!("{us}us"),
        1000..1_000_000 => (1000, "ms"),
        _ => (1_000_000, "s"),
    };
    match (us / unit, us % unit * 10 / unit) {
        (whole @ 0..10, tenth @ 1..) => format!("{whole}.{tenth}{name}"),
        (whole, _) => format!("{whole}{name}"),
    }
}

/// A cell of a row in JSON. It counts latencies from `from` up to, but not including, `to`, in microseconds. The last
/// slot has no `to`.
#[derive(Serialize)]
struct Cell {
    from: u64,
    to: Option<u64>,
    count: u64,
}

/// A row: when its interval ended, and the count of each slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Such as `2026-03-01 17:04:05`.
    pub time: String,
    /// The counts, fastest slot first.
    pub counts: Vec<u64>,
}

impl Row {
    /// The time without the day.
    fn clock(&self) -> &str {
        self.time.split(' ').next_back().unwrap_or_default()
    }

    /// The slots that are not empty: `{"time":"2026-03-01 17:04:05","unit":"usecs","cells":[{"from":128,"to":160,"count":300}]}`.
    pub fn json(&self, scale: Scale) -> impl Serialize {
        #[derive(Serialize)]
        struct Json {
            time: String,
            unit: &'static str,
            cells: Vec<Cell>,
        }
        let slots = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let cell = |(slot, count): (usize, &u64)| Cell {
            from: scale.from(slot),
            to: (slot + 1 < SLOTS).then(|| scale.from(slot + 1)),
            count: *count,
        };
        Json { time: self.time.clone(), unit: "usecs", cells: slots.map(cell).collect() }
    }
}

/// How to print rows to a terminal or a pipe.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The scale of latencies.
    pub scale: Scale,
    /// The width of the terminal.
    pub columns: usize,
    /// Whether to use colors instead of characters.
    pub colour: bool,
}

impl Form {
    fn cell(self, shade: usize) -> String {
        match shade.checked_sub(1).and_then(|nth| COLOURS.get(nth)) {
            Some(colour) if self.colour => format!("\x1b[48;5;{colour}m \x1b[0m"),
            _ if self.colour => " ".to_owned(),
            _ => CHARACTERS[shade.min(SHADES)].to_string(),
        }
    }

    /// The lines above the rows: a legend of the shades, and the axis of latency.
    pub fn head(self) -> String {
        let mut lines = vec!["requests:".to_owned()];
        let mut width = lines[0].len();
        for nth in 1..=SHADES {
            let more = if nth == SHADES { "+" } else { "" };
            let entry = format!("{}{more}", 1_u64 << (nth - 1));
            let wide = entry.len() + 3;
            if width + wide > self.columns {
                lines.push(String::new());
                width = 0;
            }
            width += wide;
            if let Some(line) = lines.last_mut() {
                let _ = write!(line, " {} {entry}", self.cell(nth));
            }
        }
        let merged = self.scale.merged(self.columns);
        let mut axis = format!("{:TIME$}", "");
        for column in 0..SLOTS.div_ceil(merged) {
            let label = format!("|{}", short(self.scale.from(column * merged)));
            let place = TIME + column;
            // Labels need a space between them, and must not cross the edge.
            let is_power = self.scale != Scale::Log || (column * merged).is_multiple_of(PARTS);
            if is_power && (axis.len() < place || place == TIME) && place + label.len() < self.columns {
                axis = format!("{axis:place$}{label}");
            }
        }
        lines.push(axis);
        lines.join("\n")
    }

    /// A row.
    pub fn row(self, row: &Row) -> String {
        let merged = self.scale.merged(self.columns);
        let cells = row.counts.chunks(merged).map(|counts| self.cell(shade(counts.iter().sum())));
        format!("{:TIME$}{}", row.clock(), cells.collect::<String>()).trim_end().to_owned()
    }
}

/// All rows as an SVG picture for a browser, light or dark as the reader prefers. Hover over a cell to see its numbers.
pub fn svg(title: &str, scale: Scale, rows: &[Row]) -> String {
    const CELL: (usize, usize) = (8, 14);
    const LEFT: usize = 76;
    const TOP: usize = 70;
    let (width, height) = (LEFT + SLOTS * CELL.0 + 30, TOP + rows.len() * CELL.1 + 24);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n<style>\n\
         .paper {{ fill: #ffffff; }} text {{ fill: #222222; }} .none {{ fill: #dfe3e8; }}\n\
         @media (prefers-color-scheme: dark) {{ .paper {{ fill: #161616; }} text {{ fill: #dddddd; }} .none {{ fill: #0a0a0a; }} }}\n\
         </style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"14\">{}</text>\n<text x=\"{LEFT}\" y=\"38\">requests:</text>\n",
        escape(title)
    );
    for (nth, paint) in PAINTS.iter().enumerate() {
        let (x, more) = (LEFT + 60 + nth * 58, if nth + 1 == SHADES { " or more" } else { "" });
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"29\" width=\"12\" height=\"11\" fill=\"{paint}\"/><text x=\"{}\" y=\"38\">{}{more}</text>",
            x + 16,
            1_u64 << nth
        );
    }
    for slot in (0..SLOTS).step_by(2 * PARTS) {
        let x = LEFT + slot * CELL.0;
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{}\">{}</text>", TOP - 6, short(scale.from(slot)));
    }
    let _ = writeln!(
        svg,
        "<rect class=\"none\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/>",
        SLOTS * CELL.0,
        rows.len() * CELL.1
    );
    for (nth, row @ Row { counts, .. }) in rows.iter().enumerate() {
        let y = TOP + nth * CELL.1;
        let time = escape(row.clock());
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{time}</text>", LEFT - 6, y + 11);
        for (slot, count) in counts.iter().take(SLOTS).enumerate().filter(|(_, count)| **count > 0) {
            let (x, paint) = (LEFT + slot * CELL.0, PAINTS[shade(*count) - 1]);
            let until = if slot + 1 < SLOTS { short(scale.from(slot + 1)) } else { "...".to_owned() };
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{paint}\"><title>{time}: {count} from {} to \
                 {until}</title></rect>",
                CELL.0,
                CELL.1,
                short(scale.from(slot))
            );
        }
    }
    svg + "</svg>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |nth: usize| {
            let mut counts = vec![0; SLOTS];
            (counts[28 + nth], counts[30], counts[31]) = (300, 40 * nth as u64, 7);
            (counts[57], counts[SLOTS - 1]) = (1, u64::from(nth == 3));
            Row { time: format!("2026-03-01 17:04:{nth:02}"), counts }
        };
        (0..6).map(row).collect()
    }

    fn show(columns: usize, scale: Scale) -> String {
        let form = Form { scale, columns, colour: false };
        let rows = rows();
        [form.head()].into_iter().chain(rows.iter().map(|row| form.row(row))).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn in_characters() {
        insta::assert_snapshot!(show(80, Scale::Log));
    }

    #[test]
    fn in_forty_columns() {
        insta::assert_snapshot!(show(40, Scale::Log));
        for (columns, scale) in
            [(40, Scale::Log), (40, Scale::Linear(100)), (80, Scale::Linear(100)), (200, Scale::Log)]
        {
            let text = show(columns, scale);
            assert!(text.lines().all(|line| line.len() <= columns), "{text}");
        }
    }

    #[test]
    fn linear() {
        insta::assert_snapshot!(show(120, Scale::Linear(100)));
    }

    #[test]
    fn in_color() {
        let form = Form { scale: Scale::Log, columns: 80, colour: true };
        let row = form.row(&rows()[0]);
        assert_eq!(row.matches("\x1b[48;5;").count(), 3, "{row:?}");
        assert!(row.contains("\x1b[48;5;228m \x1b[0m"), "{row:?}");
    }

    #[test]
    fn json() {
        let json = serde_json::to_string(&rows()[3].json(Scale::Log)).unwrap();
        insta::assert_snapshot!(json);
    }

    #[test]
    fn each_shade_is_twice_the_one_before() {
        let counts = [0, 1, 2, 3, 4, 255, 256, u64::MAX];
        assert_eq!(counts.map(shade), [0, 1, 2, 2, 3, 8, 9, 9]);
    }

    #[test]
    fn slots_begin_where_the_scale_puts_them() {
        assert_eq!([0, 4, 8, 10, 11, 12, 40].map(|slot| Scale::Log.from(slot)), [1, 2, 4, 6, 7, 8, 1024]);
        assert_eq!(Scale::Linear(50).from(3), 150);
    }

    #[test]
    fn a_picture() {
        let svg = svg("a <disk>", Scale::Log, &rows());
        // With HEATMAP_SVG=FILE you can look at the picture in a browser.
        if let Some(path) = std::env::var_os("HEATMAP_SVG") {
            std::fs::write(path, &svg).unwrap();
        }
        insta::assert_snapshot!(svg);
    }
}
