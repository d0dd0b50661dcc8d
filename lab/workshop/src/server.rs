//! The addresses that the server answers. The page's side of the same is in `page/api.ts`.

use std::path::PathBuf;
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
use axum::routing::{any, delete, get, post, put};
use common::{Error, OrCause};
use machine::workbook::copies::Change;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};
use tokio::time::MissedTickBehavior;
use wire::mystery;
use wire::play::Move;

use crate::actions::{Action, Actions, What};
use crate::app::App;
use crate::archive::{self, LARGEST_ARCHIVE};
use crate::asking::Given;
use crate::auth::{self, Auth};
use crate::backup::WorkBackup;
use crate::compile::Background;
use crate::kernels::Kernels;
use crate::mysteries::{self, Mysteries};
use crate::pages;
use crate::response::{JsonResponse, Refusal, WithStatus};
use crate::terminals::{Command, Terminals};
use crate::testing::{self, Taken};

/// How often a page hears that the server is alive.
const BEAT: Duration = Duration::from_secs(2);
/// How long the arguments of a program may be.
const LONGEST_ARGUMENTS: usize = 1000;

/// Everything that a request may need.
#[derive(Debug)]
pub struct Workshop {
    app: App,
    driver: PathBuf,
    book: PathBuf,
    auth: Arc<Auth>,
    backup: Option<Arc<WorkBackup>>,
    /// What else can be booted.
    pub kernels: Kernels,
    /// What runs.
    pub terminals: Terminals,
    actions: Actions,
    background: Background,
    mysteries: Mysteries,
    changed: watch::Sender<u64>,
    saved: broadcast::Sender<Value>,
}

type Shared = State<Arc<Workshop>>;

impl Workshop {
    /// For this course, with this driver and this book.
    pub fn new(
        app: App,
        driver: PathBuf,
        book: PathBuf,
        auth: Auth,
        backup: Option<Arc<WorkBackup>>,
        kernels: Kernels,
    ) -> Self {
        let changed = watch::channel(0).0;
        let waits_for = app.is_in_guest().then(|| driver.clone());
        Self {
            mysteries: Mysteries::new(app.workbook().clone(), changed.clone()),
            app,
            background: Background::new(waits_for),
            driver,
            book,
            auth: Arc::new(auth),
            backup,
            kernels,
            terminals: Terminals::new(changed.clone()),
            actions: Actions::new(changed.clone()),
            changed,
            saved: broadcast::channel(64).0,
        }
    }

    fn state(&self) -> Result<Value, Refusal> {
        let (programs, exercises) = self.app.state()?;
        let (mysteries, mystery) = self.mysteries.state()?;
        Ok(json!({
            "programs": programs,
            "exercises": exercises,
            "mysteries": mysteries,
            "mystery": mystery,
            "questions": self.app.asking.state()?,
            "tests": testing::state(self.app.workbook()),
            "terminals": self.terminals.list(),
            "actions": self.actions.list(&self.terminals),
            "folder": self.auth.folder,
            "guest": self.backup.is_some(),
            "kernel": self.kernels.here,
            "kernels": self.kernels.all,
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
    fn command(&self, arguments: Vec<String>) -> Result<Command, Refusal> {
        let folder = self.app.mine().to_owned();
        std::fs::create_dir_all(&folder).or_cause(format!("cannot make {}", folder.display()))?;
        let words = ["cargo", "lab"].into_iter().chain(arguments.iter().map(String::as_str));
        let shown = shlex::try_join(words).or_cause("an argument has a zero byte")?;
        let argv =
            [self.driver.clone().into_os_string()].into_iter().chain(arguments.into_iter().map(Into::into));
        Ok(Command { argv: argv.collect(), folder, shown: Some(shown) })
    }

    fn change(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

/// All addresses.
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
        .route("/api/programs/{name}/files", get(program_files))
        .route("/api/programs/{name}/diff", get(program_diff))
        .route("/api/works/{name}/files", get(files))
        .route("/api/works/{name}/file", put(save))
        .route("/api/works/{name}/diff", get(diff))
        .route("/api/works/{name}/solution", get(solution))
        .route("/api/works/{name}/start", post(start))
        .route("/api/works/{name}/hint", post(hint))
        .route("/api/works/{name}/compile", post(compile))
        .route("/api/answers/{program}/{question}", put(answered))
        .route("/api/test/{when}", get(test_questions).put(test_taken))
        .route("/api/test.tsv", get(test_export))
        .route("/api/run", post(run))
        .route("/api/check", post(check))
        .route("/api/mysteries", get(async || Json(Mysteries::about())))
        .route("/api/mysteries/{number}/start", post(start_mystery))
        .route("/api/mystery", post(play))
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

/// Changes the learner's work, and waits until it is stored.
async fn changing<T: Send + 'static>(
    workshop: &Arc<Workshop>,
    act: impl FnOnce(&Workshop) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let shared = workshop.clone();
    blocking(move || {
        let done = act(&shared)?;
        shared.store()?;
        Ok(done)
    })
    .await
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
    blocking(move || Ok(pages::book(&workshop.book, &path))).await
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
    blocking(move || Ok(pages::result(workshop.app.mine(), &name))).await
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

#[derive(Deserialize)]
struct Begin {
    begin: String,
}

async fn functions(State(workshop): Shared, Query(Begin { begin }): Query<Begin>) -> JsonResponse {
    Ok(Json(workshop.app.words.ask(move |kernel| json!({ "functions": kernel.functions(&begin) })).await?))
}

async fn program_files(State(workshop): Shared, Path(name): Path<String>) -> JsonResponse {
    Ok(Json(json!({ "files": workshop.app.files_of(&name)? })))
}

async fn files(State(workshop): Shared, Path(name): Path<String>) -> JsonResponse {
    Ok(Json(json!({ "files": workshop.app.files(&name)? })))
}

fn changes((head, files): (String, Vec<Change>)) -> JsonResponse {
    Ok(Json(json!({ "head": head, "files": files })))
}

async fn program_diff(State(workshop): Shared, Path(name): Path<String>) -> JsonResponse {
    changes(workshop.app.change_of(&name)?)
}

async fn diff(State(workshop): Shared, Path(name): Path<String>) -> JsonResponse {
    changes(workshop.app.change(&name)?)
}

#[derive(Deserialize)]
struct Comparison {
    /// Show it even if the check has not passed.
    #[serde(default)]
    peek: bool,
    /// Compare with the working copy, not with the starting point.
    #[serde(default)]
    mine: bool,
}

async fn solution(
    State(workshop): Shared,
    Path(name): Path<String>,
    Query(Comparison { peek, mine }): Query<Comparison>,
) -> JsonResponse {
    changes(workshop.app.solution(&name, peek, mine)?)
}

#[derive(Deserialize)]
struct Again {
    #[serde(default)]
    again: bool,
}

async fn start(
    State(workshop): Shared,
    Path(name): Path<String>,
    Query(Again { again }): Query<Again>,
) -> JsonResponse {
    let text = changing(&workshop, move |shared| shared.app.start(&name, again)).await?;
    workshop.change();

    Ok(Json(json!({ "text": text })))
}

async fn hint(State(workshop): Shared, Path(name): Path<String>) -> JsonResponse {
    // We don't wait until the count is stored: `WorkBackup::watch` does that, and a hint helps even if the host's disk is full.
    let shared = workshop.clone();
    let hint = blocking(move || shared.app.hint(&name)).await?;
    workshop.change();
    Ok(Json(hint))
}

async fn compile(State(workshop): Shared, Path(name): Path<String>) -> JsonResponse {
    workshop.app.files(&name)?;
    let command = workshop.command(["exercise", "compile", &name].map(str::to_owned).to_vec())?;
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
    workshop.change();
    Ok(Json(json!({})))
}

async fn test_questions(State(workshop): Shared, Path(when): Path<String>) -> JsonResponse {
    Ok(Json(testing::questions(workshop.app.workbook(), &when)?))
}

async fn test_taken(
    State(workshop): Shared,
    Path(when): Path<String>,
    Json(taken): Json<Taken>,
) -> JsonResponse {
    let keep = move |shared: &Workshop| testing::keep(shared.app.workbook(), &when, &taken);
    let said = changing(&workshop, keep).await?;
    workshop.change();
    Ok(Json(json!({ "said": said })))
}

async fn test_export(State(workshop): Shared) -> Result<Response, Refusal> {
    let (name, text) = testing::export(workshop.app.workbook())?;
    let attachment = format!("attachment; filename=\"{name}\"");
    Ok(([(CONTENT_TYPE, "text/tab-separated-values".to_owned()), (CONTENT_DISPOSITION, attachment)], text)
        .into_response())
}

#[derive(Deserialize)]
struct Where {
    path: String,
}

async fn save(
    State(workshop): Shared,
    Path(name): Path<String>,
    Query(Where { path }): Query<Where>,
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
        Err((file, was_saved)) => {
            let error = Error::new(format!("{path} has changed since you opened it"))
                .evidence("another tab or editor saved it")
                .fix("choose which text to keep");
            let mut body = json!(error);
            body["was_saved"] = json!(was_saved);
            if let (Value::Object(body), Value::Object(file)) = (&mut body, json!(file)) {
                body.extend(file);
            }
            Ok((StatusCode::CONFLICT, Json(body)).into_response())
        }
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
    let command = workshop.command(command.collect())?;
    workshop.background.cancel();
    let prediction = prediction.map(|given| workshop.app.asking.predict(&given)).transpose()?;
    let predicted = prediction.as_ref().map(|prediction| prediction.outcome.clone());
    let action = workshop.actions.start(&workshop.terminals, What::Run, &name, mine, command, prediction);
    let action = action.await?;
    if let Some(outcome) = predicted {
        // If it can't be stored, the learner is asked again another time.
        let _ = changing(&workshop, move |shared| shared.app.asking.predicted(&outcome)).await;
        workshop.change();
    }
    Ok(Json(action))
}

#[derive(Deserialize)]
struct Check {
    name: String,
}

async fn check(State(workshop): Shared, Json(Check { name }): Json<Check>) -> Result<Json<Action>, Refusal> {
    workshop.app.files(&name)?;
    let (part, exercise) = match workshop.app.case(&name) {
        Some(case) => ("clinic", case.number()),
        None => ("exercise", &*name),
    };
    let command = workshop.command([part, "check", exercise].map(str::to_owned).to_vec())?;
    workshop.background.cancel();
    Ok(Json(workshop.actions.start(&workshop.terminals, What::Check, &name, true, command, None).await?))
}

#[derive(Deserialize)]
struct Boot {
    kernel: String,
}

/// The server ends, so the page may not get the answer.
async fn boot(State(workshop): Shared, Json(Boot { kernel }): Json<Boot>) -> JsonResponse {
    workshop.kernels.find(&kernel)?;
    changing(&workshop, |_| Ok(())).await?;
    workshop.kernels.boot(&kernel)?;
    Ok(Json(json!({})))
}

async fn shell(State(workshop): Shared) -> JsonResponse {
    Ok(Json(workshop.terminals.shell(workshop.app.root().to_owned()).await?))
}

#[derive(Deserialize)]
struct Seed {
    seed: Option<u64>,
}

async fn start_mystery(
    State(workshop): Shared,
    Path(number): Path<String>,
    Json(Seed { seed }): Json<Seed>,
) -> Result<Json<Action>, Refusal> {
    let case = mystery::find(&number).status(StatusCode::NOT_FOUND)?;
    let is_starting = workshop.actions.plays(&workshop.terminals, None);
    let shared = workshop.clone();
    let (words, door) = blocking(move || shared.mysteries.command(&case, seed, is_starting)).await?;
    let mut command = workshop.command(words)?;
    command.argv.extend(door);
    workshop.background.cancel();
    let id = mysteries::id(case.number);
    Ok(Json(workshop.actions.start(&workshop.terminals, What::Play, &id, false, command, None).await?))
}

async fn play(State(workshop): Shared, Json(step): Json<Move>) -> JsonResponse {
    let shared = workshop.clone();
    let said = blocking(move || shared.mysteries.play(&step)).await?;
    // Its notes, and whether it is solved, are written with the state.
    let (_, mystery) = changing(&workshop, |shared| Ok(shared.mysteries.state()?)).await?;
    workshop.change();
    Ok(Json(json!({ "said": said, "mystery": mystery })))
}

async fn close(State(workshop): Shared, Path(id): Path<u32>) -> JsonResponse {
    if workshop.actions.plays(&workshop.terminals, Some(id)) {
        // Its disks and settings shall not outlive it.
        let shared = workshop.clone();
        if blocking(move || shared.mysteries.end()).await.is_ok() {
            workshop.terminals.get(id)?.wait().await;
        }
    }
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

#[derive(Deserialize)]
struct Hello {
    /// What the page wants to see in our proof.
    nonce: String,
}

async fn events(
    State(workshop): Shared,
    Query(Hello { nonce }): Query<Hello>,
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

/// The event that shows a page an error.
fn problem(error: &Error) -> Value {
    let mut event = json!(error);
    event["kind"] = json!("problem");
    event
}

/// The event without the seconds that actions have run and a mystery is open, which always change.
fn without_clock(event: &Value) -> Value {
    let mut event = event.clone();
    for action in event["state"]["actions"].as_array_mut().into_iter().flatten() {
        action["seconds"] = Value::Null;
    }
    if let Some(played) = event["state"]["mystery"]["played"].as_object_mut() {
        played.retain(|key, _| key != "seconds" && key != "clock");
    }
    event
}

async fn download(State(workshop): Shared) -> Result<Response, Refusal> {
    let zip = blocking(move || Ok(archive::pack(&workshop.app)?)).await?;
    let name = "attachment; filename=\"my-work.zip\"";
    Ok(([(CONTENT_TYPE, "application/zip"), (CONTENT_DISPOSITION, name)], zip).into_response())
}

#[derive(Deserialize)]
struct Replace {
    #[serde(default)]
    replace: bool,
}

async fn upload(
    State(workshop): Shared,
    Query(Replace { replace }): Query<Replace>,
    bytes: Bytes,
) -> JsonResponse {
    let restored = changing(&workshop, move |shared| archive::restore(&shared.app, &bytes, replace)).await?;
    workshop.change();

    Ok(Json(json!({ "restored": restored })))
}
