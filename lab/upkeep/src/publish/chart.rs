//! A chart of costs, as SVG.

use std::fmt::Write;

use crate::publish::tables::thousands;

/// A line of the chart.
pub struct Line {
    pub name: &'static str,
    pub value: u64,
    /// Whether its mark is a cross and not a dot.
    pub is_crossed: bool,
}

/// Where the axis begins and ends, as powers of ten.
const DECADES: std::ops::RangeInclusive<u32> = 2..=5;
const WIDTH: u32 = 720;
/// The axis on the screen, and where the first line begins.
const LEFT: u32 = 216;
const RIGHT: u32 = 680;
const TOP: u32 = 84;
/// The height of a line.
const HEIGHT: u32 = 24;

const PALETTE: &str = include_str!("../../../../docs/palette.css");

/// Draws lines of marks on a logarithmic axis, with what the marks mean.
pub(crate) fn svg(kernel: &str, lines: &[Line]) -> String {
    let bottom = TOP + HEIGHT * lines.len() as u32;
    let height = bottom + 8;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-labelledby=\"ways-title ways-desc\"\n     \
         font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"17\">\n  \
         <title id=\"ways-title\">What each way adds to a write on Linux {kernel}</title>\n  \
         <desc id=\"ways-desc\">Guest instructions for each bio, on a logarithmic axis: a dot if the way counted all bios \
         of four writers, a cross if it lost some. The numbers are in the tables.</desc>\n  \
         <style>\n{PALETTE}  </style>\n  <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    let mut draw = |text: std::fmt::Arguments<'_>| {
        let _ = writeln!(svg, "  {text}");
    };
    draw(format_args!(
        "<text class=\"ink\" x=\"14\" y=\"24\" font-weight=\"bold\">Instructions for a bio</text>"
    ));
    draw(format_args!("<text class=\"dim\" x=\"228\" y=\"24\">with four writers:</text>"));
    draw(format_args!("{}", mark("386", 18, false)));
    draw(format_args!("<text class=\"ink\" x=\"400\" y=\"24\">counted every bio</text>"));
    draw(format_args!("{}", mark("582", 18, true)));
    draw(format_args!("<text class=\"ink\" x=\"596\" y=\"24\">missed some</text>"));
    for nth in (0..lines.len() as u32).step_by(2) {
        draw(format_args!(
            "<rect class=\"gray\" stroke-opacity=\"0\" x=\"4\" y=\"{}\" width=\"{}\" height=\"{HEIGHT}\"/>",
            TOP + HEIGHT * nth,
            WIDTH - 8
        ));
    }
    for power in DECADES {
        let (x, label) = (position(10_u64.pow(power)), thousands(10_u64.pow(power)));
        draw(format_args!("<path class=\"line\" stroke-opacity=\"0.25\" d=\"M{x} {}V{bottom}\"/>", TOP - 4));
        draw(format_args!(
            "<text class=\"dim\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            TOP - 12
        ));
    }
    for (nth, line) in lines.iter().enumerate() {
        let middle = TOP + HEIGHT * nth as u32 + HEIGHT / 2;
        // A slide shows a line by its name.
        draw(format_args!("<g id=\"{}\">", line.name.replace([',', ':'], "").replace([' ', '.'], "-")));
        draw(format_args!("<text class=\"ink\" x=\"14\" y=\"{}\">{}</text>", middle + 6, line.name));
        draw(format_args!("{}", mark(&position(line.value), middle, line.is_crossed)));
        draw(format_args!("</g>"));
    }
    svg += "</svg>\n";
    svg
}

fn mark(x: &str, y: u32, is_crossed: bool) -> String {
    match is_crossed {
        true => format!(
            "<text class=\"bad\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\" font-size=\"22\" font-weight=\"bold\">✗</text>",
            y + 8
        ),
        false => format!("<circle class=\"bpf\" cx=\"{x}\" cy=\"{y}\" r=\"7\"/>"),
    }
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

    #[test]
    fn the_axis_is_logarithmic() {
        assert_eq!(
            [50, 100, 10_000, 100_000, 1_000_000].map(position),
            ["216.0", "216.0", "525.3", "680.0", "680.0"]
        );
    }

    #[test]
    fn a_cross_is_what_lost_some() {
        let line = |name, value, is_crossed| Line { name, value, is_crossed };
        let svg = svg("6.12", &[line("kprobe", 1000, true), line("fentry", 2000, false)]);
        let marks: Vec<_> =
            svg.split("<g id=").skip(1).map(|line| line.lines().nth(2).unwrap().trim()).collect();
        insta::assert_snapshot!(marks.join("\n"), @r#"
        <text class="bad" x="370.7" y="104" text-anchor="middle" font-size="22" font-weight="bold">✗</text>
        <circle class="bpf" cx="417.2" cy="120" r="7"/>
        "#);
    }
}
