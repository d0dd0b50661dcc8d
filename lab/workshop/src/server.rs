//! The addresses that the server answers. The page's side of the same is in `page/api.ts`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, IF_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, delete, get, post, put};
use common::{Error, OrCause};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::MissedTickBehavior;

use crate::Args;
use crate::actions::{Action, Actions, What};
use crate::app::App;
use crate::archive::{self, LARGEST_ARCHIVE};
use crate::asking::Given;
use crate::auth::{self, Auth};
use crate::backup::WorkBackup;
use crate::compile::Background;
use crate::pages;
use crate::response::{JsonResponse, Refusal, WithStatus};
use crate::terminals::{Command, Terminals};

/// How often a page hears that the server is alive.
const BEAT: Duration = Duration::from_secs(2);
const LONGEST_ARGUMENTS: usize = 1000;

/// Everything that a request may need.
pub struct Workshop {
    pub args: Args,
    app: App,
    auth: Arc<Auth>,
    backup: Option<Arc<WorkBackup>>,
    /// Asks the server to end, because another kernel boots next.
    pub leaves: Notify,
    pub terminals: Terminals,
    actions: Actions,
    background: Background,
    changed: watch::Sender<()>,
    saved: broadcast::Sender<Value>,
}

type Shared = State<Arc<Workshop>>;
type Name = Path<String>;

impl Workshop {
    pub fn new(args: Args, app: App, auth: Auth, backup: Option<Arc<WorkBackup>>) -> Self {
        let changed = watch::channel(()).0;
        let waits_for = app.workbook.is_in_guest().then(|| args.driver.clone());
        Self {
            args,
            app,
            background: Background::new(waits_for),
            auth: Arc::new(auth),
            backup,
            leaves: Notify::new(),
            terminals: Terminals::new(changed.clone()),
            actions: Actions::new(changed.clone()),
            changed,
            saved: broadcast::channel(64).0,
        }
    }

    fn state(&self) -> Result<Value, Refusal> {
        let (programs, exercises) = self.app.state()?;
        Ok(json!({
            "programs": programs,
            "exercises": exercises,
            "questions": self.app.asking.state()?,
            "terminals": self.terminals.list(),
            "actions": self.actions.list(&self.terminals),
            "folder": self.auth.folder,
            "guest": self.backup.is_some(),
            "kernel": self.args.kernel,
            "kernels": self.args.kernels,
            "results": self.app.results(),
            "results_key": self.auth.results,
            // Why the host does not keep the work, if it should.
            "unkept": self.backup.as_ref().and_then(|backup| backup.problem()),
        }))
    }

    /// Waits until the work is where it outlasts the server.
    fn store(&self) -> Result<(), Refusal> {
        self.backup.as_ref().map_or(Ok(()), |backup| backup.store()).status(StatusCode::INSUFFICIENT_STORAGE)
    }

    /// The driver's command with these arguments.
    fn command(&self, arguments: impl IntoIterator<Item = String>) -> Result<Command, Refusal> {
        let folder = self.app.workbook.mine.clone();
        std::fs::create_dir_all(&folder).or_cause(format!("cannot make {}", folder.display()))?;
        let arguments: Vec<_> = arguments.into_iter().collect();
        let words = ["cargo", "lab"].into_iter().chain(arguments.iter().map(String::as_str));
        let shown = shlex::try_join(words).or_cause("an argument has a zero byte")?;
        let driver = self.args.driver.clone().into_os_string();
        let argv = [driver].into_iter().chain(arguments.into_iter().map(Into::into)).collect();
        Ok(Command { argv, folder, shown: Some(shown) })
    }
}

pub fn router(workshop: Arc<Workshop>) -> Router {
    Router::new()
        .route("/", get(|| async { pages::page("") }))
        .route("/{name}", get(|Path(name): Path<String>| async move { pages::page(&name) }))
        .route("/book/{*path}", get(book))
        .route("/results/{key}/{name}", get(result))
        .route("/run", get(async |State(workshop): Shared| workshop.auth.run.clone()))
        .route("/api/state", get(state))
        .route("/api/kernel/helpers", get(helpers))
        .route("/api/kernel/types/{name}", get(layout))
        .route("/api/kernel/functions", get(functions))
        .route("/api/programs/{name}/files", about(App::files_of))
        .route("/api/programs/{name}/diff", about(App::change_of))
        .route("/api/works/{name}/files", about(App::files))
        .route("/api/works/{name}/diff", about(App::change))
        .route("/api/works/{name}/file", put(save))
        .route("/api/works/{name}/solution", get(solution))
        .route("/api/works/{name}/start", post(start))
        .route("/api/works/{name}/hint", post(hint))
        .route("/api/works/{name}/compile", post(compile))
        .route("/api/answers/{program}/{question}", put(answered))
        .route("/api/run", post(run))
        .route("/api/check", post(check))
        .route("/api/kernel", post(boot))
        .route("/api/terminals", post(shell))
        .route("/api/terminals/{id}", delete(close).merge(any(terminal)))
        .route("/api/terminals/{id}/interrupt", post(interrupt))
        .route("/api/events", any(events))
        .route("/api/work.zip", get(download))
        .route("/api/work", post(upload))
        .layer(DefaultBodyLimit::max(LARGEST_ARCHIVE))
        .layer(middleware::from_fn_with_state(workshop.auth.clone(), auth::check))
        .with_state(workshop)
}

/// What an address asks for after its path.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Asked {
    again: bool,
    /// A solution even if the check has not passed.
    peek: bool,
    /// A comparison with the working copy, not with the starting point.
    mine: bool,
    /// To upload even if other text is lost.
    replace: bool,
    /// A file of a working copy.
    path: String,
    /// Functions whose names begin so.
    begin: String,
    /// What the page wants to see in our proof.
    nonce: String,
}

/// Changes the learner's work, waits until it is stored, and lets all pages know.
async fn changing<T: Send + 'static>(
    workshop: &Arc<Workshop>,
    act: impl FnOnce(&Workshop) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let shared = workshop.clone();
    let done = blocking(move || {
        let done = act(&shared)?;
        shared.store()?;
        Ok(done)
    });
    let done = done.await;
    workshop.changed.send_replace(());
    done
}

/// Does work that waits for a disk, without holding up the terminals.
async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(act).await;
    done.unwrap_or_else(|error| {
        let error = Error::new("the workshop has a bug").evidence(error).fix("try again, and report it");
        Err(Refusal(StatusCode::INTERNAL_SERVER_ERROR, error))
    })
}

async fn book(State(workshop): Shared, Path(path): Path<String>) -> Result<Response, Refusal> {
    blocking(move || Ok(pages::book(&workshop.args.book, &path))).await
}

async fn result(
    State(workshop): Shared,
    Path((key, name)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    if !auth::is_same(&key, &workshop.auth.results) {
        return Err(
            Error::new("this address is from an earlier start").fix("open it from the workshop's page")
        )
        .status(StatusCode::UNAUTHORIZED);
    }
    blocking(move || Ok(pages::result(&workshop.app.workbook.mine, &name))).await
}

async fn state(State(workshop): Shared) -> JsonResponse {
    Ok(Json(blocking(move || workshop.state()).await?))
}

async fn helpers(State(workshop): Shared) -> JsonResponse {
    Ok(Json(workshop.app.words.ask(|kernel| json!({ "helpers": kernel.helpers() })).await?))
}

async fn layout(State(workshop): Shared, Path(name): Path<String>) -> JsonResponse {
    Ok(Json(workshop.app.words.ask(move |kernel| json!({ "type": kernel.layout(&name) })).await?))
}

async fn functions(State(workshop): Shared, Query(Asked { begin, .. }): Query<Asked>) -> JsonResponse {
    Ok(Json(workshop.app.words.ask(move |kernel| json!({ "functions": kernel.functions(&begin) })).await?))
}

/// What there is of a program or of an exercise of this name.
fn about(find: fn(&App, &str) -> Result<Value, Refusal>) -> MethodRouter<Arc<Workshop>> {
    get(async move |State(workshop): Shared, Path(name): Name| find(&workshop.app, &name).map(Json))
}

async fn solution(State(workshop): Shared, Path(name): Name, Query(asked): Query<Asked>) -> JsonResponse {
    workshop.app.solution(&name, asked.peek, asked.mine).map(Json)
}

async fn start(State(workshop): Shared, Path(name): Name, Query(asked): Query<Asked>) -> JsonResponse {
    let text = changing(&workshop, move |shared| shared.app.start(&name, asked.again)).await?;
    Ok(Json(json!({ "text": text })))
}

async fn hint(State(workshop): Shared, Path(name): Name) -> JsonResponse {
    // We don't wait until the count is stored: `WorkBackup::watch` does that, and a hint helps even if the host's disk is full.
    let shared = workshop.clone();
    let hint = blocking(move || shared.app.hint(&name)).await?;
    workshop.changed.send_replace(());
    Ok(Json(hint))
}

async fn compile(State(workshop): Shared, Path(name): Name) -> JsonResponse {
    workshop.app.files(&name)?;
    let command = workshop.command(["exercise", "compile", &name].map(str::to_owned))?;
    // Nothing, if something newer has ended it.
    let compiled = workshop.background.compile(command).await.transpose()?;
    Ok(Json(json!({ "compiled": compiled })))
}

#[derive(Deserialize)]
struct Tries {
    tries: u32,
}

async fn answered(
    State(workshop): Shared,
    Path((program, question)): Path<(String, String)>,
    Json(Tries { tries }): Json<Tries>,
) -> JsonResponse {
    let id = format!("{program}/{question}");
    changing(&workshop, move |shared| shared.app.asking.remember(&id, tries)).await?;
    Ok(Json(json!({})))
}

async fn save(
    State(workshop): Shared,
    Path(name): Name,
    Query(Asked { path, .. }): Query<Asked>,
    headers: HeaderMap,
    text: String,
) -> Result<Response, Refusal> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (work, file) = (name.clone(), path.clone());
    let version = header(IF_MATCH.as_str()).to_owned();
    match changing(&workshop, move |shared| shared.app.save(&work, &file, &version, &text)).await? {
        Ok(version) => {
            let event = json!({ "kind": "saved", "work": name, "path": path, "version": version, "by": header("x-client") });
            // Perhaps no page listens.
            let _ = workshop.saved.send(event);
            Ok(Json(json!({ "version": version })).into_response())
        }
        Err(conflict) => Ok((StatusCode::CONFLICT, Json(conflict)).into_response()),
    }
}

#[derive(Deserialize)]
struct Run {
    name: String,
    #[serde(default)]
    mine: bool,
    #[serde(default)]
    arguments: String,
    /// What the learner expects.
    prediction: Option<Given>,
}

async fn run(
    State(workshop): Shared,
    Json(Run { name, mine, arguments, prediction }): Json<Run>,
) -> Result<Json<Action>, Refusal> {
    if mine {
        workshop.app.files(&name)?;
    } else {
        workshop.app.program(&name)?;
    }
    if arguments.len() > LONGEST_ARGUMENTS {
        let error = Error::new("these arguments are too long")
            .evidence(format!("they have {} bytes, and {LONGEST_ARGUMENTS} are allowed", arguments.len()))
            .fix("run it in a shell instead");
        return Err(error.into());
    }
    let words = shlex::split(&arguments).ok_or_else(|| {
        Error::new("cannot split these arguments").evidence(arguments).fix("close each quote that you open")
    })?;
    let mine_flag = mine.then(|| "--mine".to_owned());
    let command = ["run".to_owned()].into_iter().chain(mine_flag).chain([name.clone()]).chain(words);
    let command = workshop.command(command)?;
    workshop.background.cancel();
    let prediction = prediction.map(|given| workshop.app.asking.predict(&given)).transpose()?;
    let predicted = prediction.as_ref().map(|prediction| prediction.outcome.clone());
    let action = workshop.actions.start(&workshop.terminals, What::Run, &name, mine, command, prediction);
    let action = action.await?;
    if let Some(outcome) = predicted {
        // If it can't be stored, the learner is asked again another time.
        let _ = changing(&workshop, move |shared| shared.app.asking.predicted(&outcome)).await;
    }
    Ok(Json(action))
}

async fn check(State(workshop): Shared, Json(Run { name, .. }): Json<Run>) -> Result<Json<Action>, Refusal> {
    workshop.app.files(&name)?;
    let command = workshop.command(workshop.app.work(&name)?.check())?;
    workshop.background.cancel();
    Ok(Json(workshop.actions.start(&workshop.terminals, What::Check, &name, true, command, None).await?))
}

#[derive(Deserialize)]
struct Boot {
    kernel: String,
}

/// Another kernel without leaving. The server can only end, and tell the launcher which kernel is next. That boots it with the
/// same port and the same work, so the page finds the workshop again. It may not get this answer.
async fn boot(State(workshop): Shared, Json(Boot { kernel }): Json<Boot>) -> JsonResponse {
    let Args { kernels, announce, .. } = &workshop.args;
    let (Some(launcher), true) = (announce, kernels.contains(&kernel)) else {
        let known = if kernels.is_empty() { "none".to_owned() } else { kernels.join(", ") };
        let error = Error::new(format!("the workshop can't boot Linux {kernel}"));
        return Err(error.evidence(format!("the kernels to choose from: {known}")))
            .status(StatusCode::NOT_FOUND);
    };
    changing(&workshop, |_| Ok(())).await?;
    crate::report(launcher, &format!("next {kernel}"))?;
    workshop.leaves.notify_one();
    Ok(Json(json!({})))
}

async fn shell(State(workshop): Shared) -> JsonResponse {
    Ok(Json(workshop.terminals.shell(workshop.app.workbook.root.clone()).await?))
}

async fn close(State(workshop): Shared, Path(id): Path<u32>) -> JsonResponse {
    workshop.terminals.remove(id).await?;
    Ok(Json(json!({})))
}

async fn interrupt(State(workshop): Shared, Path(id): Path<u32>) -> JsonResponse {
    workshop.terminals.get(id)?.interrupt();
    Ok(Json(json!({})))
}

async fn terminal(
    State(workshop): Shared,
    Path(id): Path<u32>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Refusal> {
    let terminal = workshop.terminals.get(id)?;
    let upgrade = upgrade.max_message_size(1 << 20).protocols([auth::PROTOCOL]);
    Ok(upgrade.on_upgrade(move |socket| async move { terminal.connect(socket).await }))
}

async fn events(
    State(workshop): Shared,
    Query(Asked { nonce, .. }): Query<Asked>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let upgrade = upgrade.max_message_size(1024).protocols([auth::PROTOCOL]);
    upgrade.on_upgrade(async move |mut socket| {
        let hello = json!({ "kind": "hello", "proof": workshop.auth.hello(&nonce) });
        if socket.send(Message::Text(hello.to_string().into())).await.is_ok() {
            report(workshop, socket).await;
        }
    })
}

/// Sends a page the state whenever it changes, and what other pages saved.
async fn report(workshop: Arc<Workshop>, mut socket: WebSocket) {
    let (mut changed, mut saved) = (workshop.changed.subscribe(), workshop.saved.subscribe());
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Value::Null;
    loop {
        let mut events = Vec::new();
        tokio::select! {
            message = socket.recv() => match message {
                Some(Ok(_)) => continue,
                _ => return,
            },
            event = saved.recv() => events.extend(event.ok()),
            _ = beat.tick() => events.push(json!({ "kind": "alive" })),
            _ = changed.changed() => {}
        }
        // A command in a terminal may have changed it, too.
        let shared = workshop.clone();
        let event = match blocking(move || shared.state()).await {
            Ok(state) => json!({ "kind": "state", "state": state }),
            Err(Refusal(_, error)) => problem(&error),
        };
        if without_clock(&event) != last {
            last = without_clock(&event);
            events.push(event);
        }
        for event in events {
            if socket.send(Message::Text(event.to_string().into())).await.is_err() {
                return;
            }
        }
    }
}

fn problem(error: &Error) -> Value {
    let mut event = json!(error);
    event["kind"] = json!("problem");
    event
}

/// The event without the seconds that actions have run, which always change.
fn without_clock(event: &Value) -> Value {
    let mut event = event.clone();
    for action in event["state"]["actions"].as_array_mut().into_iter().flatten() {
        action["seconds"] = Value::Null;
    }
    event
}

async fn download(State(workshop): Shared) -> Result<Response, Refusal> {
    let zip = blocking(move || Ok(archive::pack(&workshop.app)?)).await?;
    let name = "attachment; filename=\"my-work.zip\"";
    Ok(([(CONTENT_TYPE, "application/zip"), (CONTENT_DISPOSITION, name)], zip).into_response())
}

async fn upload(State(workshop): Shared, Query(asked): Query<Asked>, bytes: Bytes) -> JsonResponse {
    let restore = move |shared: &Workshop| archive::restore(&shared.app, &bytes, asked.replace);
    Ok(Json(json!({ "restored": changing(&workshop, restore).await? })))
}
