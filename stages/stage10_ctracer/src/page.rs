//! The page of a recording: one HTML file that needs nothing else, neither a server nor the network.
//!
//! Its parts are in `page/`: the shell, the looks, and the scripts, which are plain JavaScript modules. A browser loads
//! no module from a file that lies beside a page, so they are joined into one. An import is one line.

use std::sync::LazyLock;

/// The modules, each behind those that it imports.
const MODULES: [&str; 12] = [
    include_str!("page/model.js"),
    include_str!("page/text.js"),
    include_str!("page/state.js"),
    include_str!("page/shown.js"),
    include_str!("page/search.js"),
    include_str!("page/tree.js"),
    include_str!("page/recording.js"),
    include_str!("page/detail.js"),
    include_str!("page/axis.js"),
    include_str!("page/pointer.js"),
    include_str!("page/filters.js"),
    include_str!("page/main.js"),
];

/// The page with a mark where the recording comes.
static SHELL: LazyLock<String> = LazyLock::new(|| {
    include_str!("page/page.html")
        .replace("{{css}}", include_str!("page/page.css").trim_end())
        .replace("{{js}}", &joined(&MODULES))
});

/// The page that shows a view, which is the JSON document that `ctracer show --json` prints.
///
/// What is in the view can't become a part of the page: in JSON, `<` stands only within strings, where it can be
/// written in another way.
pub fn html(view: &str) -> String {
    SHELL.replacen("{{view}}", &view.replace('<', "\\u003c"), 1)
}

/// Modules as one: names are shared as they are, so what imports and exports them is left out.
fn joined(modules: &[&str]) -> String {
    let lines = modules.iter().flat_map(|module| module.lines());
    let kept = lines.filter(|line| !line.starts_with("import "));
    kept.map(|line| line.strip_prefix("export ").unwrap_or(line)).collect::<Vec<_>>().join("\n")
}
