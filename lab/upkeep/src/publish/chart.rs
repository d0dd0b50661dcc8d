//! A chart of costs, as SVG.

use std::fmt::Write;

use machine::kernels::Series;

use crate::publish::tables::thousands;

/// A line of the chart: a name, and a mark for each kernel that has a value.
pub struct Line {
    pub name: &'static str,
    pub marks: Vec<Option<Mark>>,
}

/// A value on the chart.
pub(crate) struct Mark {
    pub value: u64,
    /// Whether it is drawn as a ring and not as a dot.
    pub is_hollow: bool,
}

/// Where the axis begins and ends, as powers of ten.
const DECADES: std::ops::RangeInclusive<u32> = 2..=5;
const WIDTH: u32 = 860;
/// The axis on the screen, and where the first line begins.
const LEFT: u32 = 200;
const RIGHT: u32 = 820;
const TOP: u32 = 110;
/// The height of a line. Each mark has its own track in it, of this height if there is room.
const HEIGHT: u32 = 27;
const TRACK: u32 = 11;
/// The legend's width for a kernel if there is room, and for all kernels.
const ENTRY: usize = 90;
const LEGEND: usize = 402;

/// What looks different on light and on dark paper.
fn style(kernels: &[Series]) -> String {
    let colors = |paper: usize| {
        let color =
            |(nth, series): (usize, &Series)| format!(".k{nth} {{ --kernel: {} }} ", series.colors[paper]);
        kernels.iter().enumerate().map(color).collect::<String>()
    };
    format!(
        "    .paper {{ fill: #ffffff }} .ink {{ fill: #0f172a }} .dim {{ fill: #475569 }} .grid {{ stroke: #cbd5e1 }}
    {}.key {{ --kernel: #475569 }}
    .band {{ fill: #f1f5f9 }} .dot {{ fill: var(--kernel); stroke: var(--kernel) }} .ring {{ fill: none; stroke: var(--kernel) }}
    @media (prefers-color-scheme: dark) {{
      .paper {{ fill: #161923 }} .ink {{ fill: #e2e8f0 }} .dim {{ fill: #a3b1c6 }} .grid {{ stroke: #475569 }} .band {{ fill: #1f2433 }}
      {}.key {{ --kernel: #a3b1c6 }}
    }}
",
        colors(0),
        colors(1)
    )
}

/// Draws lines of marks on a logarithmic axis, with a legend of the kernels.
pub(crate) fn svg(kernels: &[Series], lines: &[Line]) -> String {
    let style = style(kernels);
    let entry = ENTRY.min(LEGEND / kernels.len().max(1));
    let gaps = (kernels.len() as u32).saturating_sub(1);
    let track = TRACK.min((HEIGHT - 10) / gaps.max(1));
    let bottom = TOP + HEIGHT * lines.len() as u32;
    let height = bottom + 12;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-labelledby=\"ways-title ways-desc\"\n     \
         font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"16\">\n  \
         <title id=\"ways-title\">What each way adds to a write</title>\n  \
         <desc id=\"ways-desc\">Guest instructions for each bio, on a logarithmic axis, with a mark for each kernel: a dot if \
         the way counted all bios of four writers, a ring if it lost some. The numbers are in the tables.</desc>\n  \
         <style>\n{style}  </style>\n  <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    let mut draw = |text: std::fmt::Arguments<'_>| {
        let _ = writeln!(svg, "  {text}");
    };
    draw(format_args!(
        "<text class=\"ink\" x=\"20\" y=\"32\" font-weight=\"bold\">Instructions that each way adds to a write</text>"
    ));
    for (nth, series) in kernels.iter().enumerate() {
        let x = 28 + entry * nth;
        draw(format_args!("<circle class=\"dot k{nth}\" cx=\"{x}\" cy=\"59\" r=\"5\"/>"));
        draw(format_args!("<text class=\"ink\" x=\"{}\" y=\"64\">{}</text>", x + 12, series.name));
    }
    draw(format_args!("<circle class=\"dot key\" cx=\"440\" cy=\"59\" r=\"5\"/>"));
    draw(format_args!("<text class=\"ink\" x=\"452\" y=\"64\">counted all bios of four writers</text>"));
    draw(format_args!("<circle class=\"ring key\" cx=\"710\" cy=\"59\" r=\"4.5\" stroke-width=\"2\"/>"));
    draw(format_args!("<text class=\"ink\" x=\"722\" y=\"64\">lost some</text>"));
    for nth in (0..lines.len() as u32).step_by(2) {
        draw(format_args!(
            "<rect class=\"band\" x=\"10\" y=\"{}\" width=\"{}\" height=\"{HEIGHT}\"/>",
            TOP + HEIGHT * nth,
            WIDTH - 20
        ));
    }
    for power in DECADES {
        let (x, label) = (position(10_u64.pow(power)), thousands(10_u64.pow(power)));
        draw(format_args!("<path class=\"grid\" d=\"M{x} {}V{bottom}\"/>", TOP - 4));
        draw(format_args!(
            "<text class=\"dim\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            TOP - 12
        ));
    }
    for (nth, line) in lines.iter().enumerate() {
        let top = TOP + HEIGHT * nth as u32;
        let first = top + (HEIGHT - track * gaps) / 2;
        // A slide shows a line by its name.
        draw(format_args!("<g id=\"{}\">", line.name.replace([',', ':'], "").replace([' ', '.'], "-")));
        draw(format_args!(
            "<text class=\"ink\" x=\"20\" y=\"{}\">{}</text>",
            top + HEIGHT / 2 + 5,
            line.name
        ));
        for (kernel, mark) in line.marks.iter().enumerate() {
            let Some(Mark { value, is_hollow }) = mark else { continue };
            let (x, y) = (position(*value), first + track * kernel as u32);
            let (class, rest) =
                if *is_hollow { ("ring", "r=\"4.5\" stroke-width=\"2\"") } else { ("dot", "r=\"5\"") };
            draw(format_args!("<circle class=\"{class} k{kernel}\" cx=\"{x}\" cy=\"{y}\" {rest}/>"));
        }
        draw(format_args!("</g>"));
    }
    svg += "</svg>\n";
    svg
}

/// Where a value is on the axis. What is beyond an end is drawn there.
fn position(value: u64) -> String {
    let (first, last) = (f64::from(*DECADES.start()), f64::from(*DECADES.end()));
    let part = ((value.max(1) as f64).log10() - first) / (last - first);
    format!("{:.1}", f64::from(LEFT) + f64::from(RIGHT - LEFT) * part.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::kernels::MATRIX;

    /// However many kernels there are, their marks are in the line, and the legend ends before the key.
    #[test]
    fn there_is_room_for_more_kernels() {
        for count in 1..=9 {
            let marks = || Some(Mark { value: 1000, is_hollow: false });
            let lines = [Line { name: "kprobe", marks: (0..count).map(|_| marks()).collect() }];
            let svg = svg(&vec![MATRIX[0]; count], &lines);
            let number = |line: &str, name: &str| {
                let (_, rest) = line.split_once(&format!(" {name}=\"")).unwrap();
                rest.split('"').next().unwrap().parse::<f64>().unwrap()
            };
            let dots: Vec<_> =
                svg.lines().filter(|line| line.contains("class=\"dot k") && !line.contains("key")).collect();
            let (legend, marks) = dots.split_at(count);
            assert!(legend.iter().all(|dot| number(dot, "cx") < 400.0), "{legend:?}");
            let (top, bottom) = (f64::from(TOP) + 5.0, f64::from(TOP + HEIGHT) - 5.0);
            assert!(marks.iter().all(|dot| (top..=bottom).contains(&number(dot, "cy"))), "{marks:?}");
            assert_eq!(marks.len(), count);
        }
    }

    #[test]
    fn the_axis_is_logarithmic() {
        assert_eq!(
            [50, 100, 10_000, 100_000, 1_000_000].map(position),
            ["200.0", "200.0", "613.3", "820.0", "820.0"]
        );
    }

    #[test]
    fn a_ring_is_what_lost_some() {
        let mark = |value, is_hollow| Some(Mark { value, is_hollow });
        let lines = [Line { name: "kprobe", marks: vec![mark(1000, true), None, mark(2000, false)] }];
        let svg = svg(&MATRIX[..3], &lines);
        let marks: Vec<_> = svg.lines().filter(|line| line.contains("cy=\"1")).map(str::trim).collect();
        insta::assert_snapshot!(marks.join("\n"), @r#"
        <circle class="ring k0" cx="406.7" cy="115" r="4.5" stroke-width="2"/>
        <circle class="dot k2" cx="468.9" cy="131" r="5"/>
        "#);
    }
}
