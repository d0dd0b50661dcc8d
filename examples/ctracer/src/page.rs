//! The page of a recording: one HTML file that needs neither a server nor the network.
//!
//! Its parts are in `page/`: the HTML, the CSS, and the scripts, which are plain JavaScript modules. A browser doesn't
//! load modules from files next to a page, so we join them into one script. That is why each import must be on one
//! line.

use std::sync::LazyLock;

/// The modules. Each comes after the modules that it imports.
const MODULES: [&str; 17] = [
    include_str!("page/model.js"),
    include_str!("page/spent.js"),
    include_str!("page/text.js"),
    include_str!("page/state.js"),
    include_str!("page/shown.js"),
    include_str!("page/search.js"),
    include_str!("page/tree.js"),
    include_str!("page/recording.js"),
    include_str!("page/detail.js"),
    include_str!("page/tracks.js"),
    include_str!("page/axis.js"),
    include_str!("page/where.js"),
    include_str!("page/pointer.js"),
    include_str!("page/filters.js"),
    include_str!("page/perfetto.js"),
    include_str!("page/main.js"),
    include_str!("page/address.js"),
];

/// The page, with a placeholder for the recording.
static SHELL: LazyLock<String> = LazyLock::new(|| {
    include_str!("page/page.html")
        .replace("{{css}}", include_str!("page/page.css").trim_end())
        .replace("{{js}}", &joined(&MODULES))
});

/// The page that shows a view, the JSON document that `ctracer show --json` prints. If it is part of a book, `book` is the
/// address of the book's page on ctracer.
///
/// No text in the view can become HTML: in JSON, `<` appears only inside strings, and there we escape it.
pub fn html(view: &str, book: Option<&str>) -> String {
    let link = book.map(|page| format!("<a href=\"{page}\">What this page shows</a>"));
    let shell = SHELL.replacen("{{book}}", &link.unwrap_or_default(), 1);
    shell.replacen("{{view}}", &view.replace('<', "\\u003c"), 1)
}

/// Joins modules into one script. All names are then in the same scope, so we drop `import` and `export`.
fn joined(modules: &[&str]) -> String {
    let lines = modules.iter().flat_map(|module| module.lines());
    let kept = lines.filter(|line| !line.starts_with("import "));
    kept.map(|line| line.strip_prefix("export ").unwrap_or(line)).collect::<Vec<_>>().join("\n")
}
