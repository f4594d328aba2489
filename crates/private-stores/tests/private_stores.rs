//! The private servers, for real: each test starts its own and breaks them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

use std::{
    fs::{self, File, Permissions},
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    fcntl::{Flock, FlockArg},
    sys::signal::Signal::{self, SIGKILL, SIGSTOP},
    unistd::{User, geteuid},
};
use private_stores::{Home, Plan, Server, Servers, StoresError};
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use testkit::needs::needs_root;
use testkit::processes::{is_alive, open_program, place, program, send};

fn throwaway() -> Plan {
    Plan { home: Home::Throwaway, postgres: true, redis: true, durable: false }
}

fn kept(directory: &Path) -> Plan {
    Plan { home: Home::Kept(directory.to_owned()), ..throwaway() }
}

/// On a busy machine an owner may need longer for its start than a guest waits.
fn start(plan: &Plan) -> Servers {
    let mut started = Servers::start(plan);
    await_that("the servers are started", || {
        let again = started.as_ref().is_err_and(|error| matches!(error, StoresError::Busy(_)));
        if again {
            started = Servers::start(plan);
        }
        !again
    });
    started.unwrap()
}

fn started_at_once(count: usize, plan: &Plan) -> Vec<Servers> {
    thread::scope(|scope| {
        let starting: Vec<_> = (0..count).map(|_| scope.spawn(|| start(plan))).collect();
        starting.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// Does `work` on a connection of its own.
fn connected<T>(url: &str, work: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let done = work(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        done
    })
}

/// Runs one statement that answers one number.
fn sql(url: &str, statement: &'static str) -> i64 {
    connected(url, async |connection| sqlx::query_scalar(statement).fetch_one(connection).await)
}

fn run_sql(url: &str, statement: &'static str) {
    connected(url, async |connection| sqlx::query(statement).execute(connection).await);
}

fn ask<T: redis::FromRedisValue>(url: &str, words: &[&str]) -> T {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    redis::cmd(words[0]).arg(&words[1..]).query(&mut connection).unwrap()
}

fn ping(url: &str) -> String {
    ask(url, &["PING"])
}

/// Waits for an event that has no handle to wait on.
fn await_that(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !happened() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn await_end_of(pids: &[u32]) {
    await_that("the processes are gone", || !pids.iter().any(|pid| is_alive(*pid)));
}

fn pids(servers: &Servers) -> Vec<u32> {
    [Server::Postgres, Server::Redis].into_iter().filter_map(|server| servers.pid(server)).collect()
}

fn scratch_of(servers: &Servers) -> PathBuf {
    let path = servers.redis_url().unwrap().strip_prefix("redis+unix://").unwrap();
    Path::new(path).parent().unwrap().parent().unwrap().to_owned()
}

/// A supervisor spoken to by hand, for what `Servers` does not let one choose.
struct RawKeeper {
    child: Child,
    replies: BufReader<ChildStdout>,
}

impl RawKeeper {
    fn start(command: &mut Command, plan: &Plan) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let plan = serde_json::to_string(plan).unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{plan}").unwrap();
        let replies = BufReader::new(child.stdout.take().unwrap());
        Self { child, replies }
    }

    fn start_in(temporary: &Path, plan: &Plan) -> Self {
        Self::start(Command::new(program("private-stores")).env("TMPDIR", temporary), plan)
    }

    fn reply(&mut self) -> Value {
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// Whether it ends in good order.
    fn ends(mut self) -> bool {
        drop(self.child.stdin.take());
        self.child.wait().unwrap().success()
    }
}

#[cfg(target_os = "linux")]
type Harm = fn(&Servers);

/// What happens to servers before they are stopped, and whether the stop returns that all went well.
#[cfg(target_os = "linux")]
const HARMS: [(&str, Harm, bool); 5] = [
    ("nothing", |_| {}, true),
    ("both are paused", |servers| pids(servers).iter().for_each(|pid| send(*pid, SIGSTOP)), true),
    ("the supervisor is told to end", supervisor_told_to_end, true),
    (
        "the supervisor is killed",
        |servers| {
            send(servers.supervisor_pid().unwrap(), SIGKILL);
            await_end_of(&pids(servers));
        },
        false,
    ),
    (
        "the supervisor of a paused PostgreSQL is killed",
        |servers| {
            send(servers.pid(Server::Postgres).unwrap(), SIGSTOP);
            send(servers.supervisor_pid().unwrap(), SIGKILL);
        },
        false,
    ),
];

#[cfg(target_os = "linux")]
fn supervisor_told_to_end(servers: &Servers) {
    for ignored in [Signal::SIGINT, Signal::SIGHUP] {
        send(servers.supervisor_pid().unwrap(), ignored);
    }
    assert_eq!(ping(servers.redis_url().unwrap()), "PONG");
    send(servers.supervisor_pid().unwrap(), Signal::SIGTERM);
    await_end_of(&pids(servers));
}

#[test]
#[cfg(target_os = "linux")]
fn a_stop_leaves_no_process_and_no_directory_whatever_happened_before() {
    for (what, harm, is_in_order) in HARMS {
        let servers = start(&throwaway());
        let (pids, directory) = (pids(&servers), servers.directory().to_owned());
        assert!(directory.exists() && pids.len() == 2);
        harm(&servers);
        match servers.stop() {
            Ok(()) => assert!(is_in_order, "{what}"),
            Err(StoresError::Supervisor(_)) if !is_in_order => await_end_of(&pids),
            Err(error) => panic!("{what}: {error:?}"),
        }
        assert!(!directory.exists(), "{what}");
        assert!(!pids.iter().any(|pid| is_alive(*pid)), "{what}");
    }
}

#[test]
fn two_pairs_do_not_clash_and_a_stop_leaves_nothing() {
    let pairs = started_at_once(2, &throwaway());
    for (pair, name) in pairs.iter().zip(["one", "two"]) {
        ask::<()>(pair.redis_url().unwrap(), &["SET", "name", name]);
        run_sql(pair.database_url().unwrap(), "create table only_here ()");
    }
    for (pair, name) in pairs.iter().zip(["one", "two"]) {
        assert_eq!(ask::<String>(pair.redis_url().unwrap(), &["GET", "name"]), name);
    }
    for pair in pairs {
        let (pids, directory) = (pids(&pair), pair.directory().to_owned());
        assert!(directory.exists() && pids.len() == 2);
        pair.stop().unwrap();
        assert!(!directory.exists() && !pids.iter().any(|pid| is_alive(*pid)));
    }
}

#[test]
fn only_what_is_asked_for_is_started_and_dropping_stops_it_as_well() {
    let postgres = start(&Plan { redis: false, ..throwaway() });
    assert!(postgres.redis_url().is_none() && postgres.pid(Server::Redis).is_none());
    let named = "select (current_database() = 'seckill')::int::int8";
    assert_eq!(sql(postgres.database_url().unwrap(), named), 1);
    let mut redis = start(&Plan { postgres: false, ..throwaway() });
    assert!(redis.database_url().is_none() && redis.pid(Server::Postgres).is_none());
    assert_eq!(ping(redis.redis_url().unwrap()), "PONG");
    let error = redis.restart(Server::Postgres).unwrap_err();
    assert!(error.to_string().contains("PostgreSQL is not one of these"), "{error}");
    assert_eq!(ping(redis.redis_url().unwrap()), "PONG", "a refused order changes nothing");
    for servers in [postgres, redis] {
        let (pids, directory) = (pids(&servers), servers.directory().to_owned());
        drop(servers);
        assert!(!directory.exists() && !pids.iter().any(|pid| is_alive(*pid)));
    }
}

#[test]
fn durable_means_fsync() {
    let fsync = "select (setting = 'on')::int::int8 from pg_settings where name = 'fsync'";
    for durable in [true, false] {
        let servers = start(&Plan { durable, redis: false, ..throwaway() });
        assert_eq!(sql(servers.database_url().unwrap(), fsync), i64::from(durable));
    }
}

#[test]
fn a_kept_home_keeps_its_data_also_when_everything_was_killed() {
    for is_killed in [false, cfg!(target_os = "linux")] {
        let place = place();
        let home = place.path().join("made/on the way");
        // Durable: without it a killed PostgreSQL may lose its last moments.
        let plan = Plan { durable: true, ..kept(&home) };
        let mut servers = start(&plan);
        let (scratch, told) = (scratch_of(&servers), home.join("servers.json"));
        run_sql(servers.database_url().unwrap(), "create table t as select 7::int8 as n");
        ask::<()>(servers.redis_url().unwrap(), &["SET", "n", "7"]);
        assert_eq!(fs::metadata(&told).unwrap().permissions().mode() & 0o777, 0o600);
        let mut killed = None;
        if is_killed {
            // The servers first, so that they cannot tidy up; their lock files stay.
            let all = [pids(&servers), vec![servers.supervisor_pid().unwrap()]].concat();
            all.iter().for_each(|pid| send(*pid, SIGKILL));
            await_end_of(&all);
            assert!(home.join("postgres/postmaster.pid").exists() && told.exists());
            killed = Some(servers);
        } else {
            servers.stop().unwrap();
            assert!(!told.exists() && !scratch.exists());
        }
        servers = start(&plan);
        assert!(!servers.is_attached());
        assert!(!scratch.exists(), "the next supervisor sweeps what a killed one left");
        assert_eq!(sql(servers.database_url().unwrap(), "select n from t"), 7);
        assert_eq!(ask::<i64>(servers.redis_url().unwrap(), &["GET", "n"]), 7);
        servers.stop().unwrap();
        assert!(killed.is_none_or(|killed| killed.stop().is_err()));
    }
}

#[test]
fn a_second_start_on_a_kept_home_attaches() {
    let place = place();
    let plan = kept(&place.path().join("home"));
    let owner = start(&plan);
    let mut guest = start(&plan);
    assert!(guest.is_attached() && !owner.is_attached());
    assert_eq!(guest.database_url(), owner.database_url());
    assert_eq!(guest.redis_url(), owner.redis_url());
    assert!(matches!(guest.restart(Server::Redis), Err(StoresError::NotOwner)));
    guest.stop().unwrap();
    assert_eq!(ping(owner.redis_url().unwrap()), "PONG", "a guest that leaves stops nothing");
    owner.stop().unwrap();
    let next = start(&plan);
    assert!(!next.is_attached());
    next.stop().unwrap();
}

#[test]
fn many_starts_at_once_on_a_kept_home_agree_on_one_owner() {
    let place = place();
    let plan = kept(&place.path().join("home"));
    let all = started_at_once(4, &plan);
    assert_eq!(all.iter().filter(|servers| !servers.is_attached()).count(), 1);
    assert!(all.iter().all(|servers| servers.database_url() == all[0].database_url()));
}

#[test]
fn a_guest_is_told_what_the_owner_does_not_run() {
    let place = place();
    let plan = kept(&place.path().join("home"));
    let _owner = start(&Plan { postgres: false, ..plan.clone() });
    let error = Servers::start(&plan).unwrap_err();
    assert!(error.to_string().contains("runs no PostgreSQL"), "{error}");
    let guest = start(&Plan { postgres: false, ..plan });
    assert!(guest.is_attached());
}

#[test]
fn a_home_that_is_held_but_never_ready_is_busy() {
    let place = place();
    let lock = File::create(place.path().join("lock")).unwrap();
    let _held = Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| e).unwrap();
    let error = Servers::start(&kept(place.path())).unwrap_err();
    assert!(matches!(error, StoresError::Busy(_)) && error.may_retry(), "{error:?}");
}

#[test]
fn a_killed_redis_restarts_on_the_same_socket() {
    let mut servers = start(&throwaway());
    let url = servers.redis_url().unwrap().to_owned();
    ask::<()>(&url, &["SET", "n", "7"]);
    let killed = servers.pid(Server::Redis).unwrap();
    send(killed, SIGKILL);
    await_end_of(&[killed]);
    assert!(redis::Client::open(&*url).unwrap().get_connection().is_err());
    servers.restart(Server::Redis).unwrap();
    assert_eq!(servers.redis_url(), Some(&*url));
    assert_ne!(servers.pid(Server::Redis), Some(killed));
    assert_eq!(
        ask::<Option<i64>>(&url, &["GET", "n"]),
        None,
        "a throw-away Redis comes back empty"
    );
}

#[test]
fn a_killed_postgres_recovers_its_commits() {
    let mut servers = start(&Plan { redis: false, ..throwaway() });
    let url = servers.database_url().unwrap().to_owned();
    run_sql(&url, "create table t as select 7::int8 as n");
    for signal in [SIGKILL, SIGSTOP] {
        send(servers.pid(Server::Postgres).unwrap(), signal);
        servers.restart(Server::Postgres).unwrap();
        assert_eq!(sql(&url, "select n from t"), 7);
    }
    servers.restart(Server::Postgres).unwrap();
    assert_eq!(sql(&url, "select n from t"), 7, "a running server restarts too");
}

#[test]
fn a_paused_session_does_not_hang_the_stop() {
    let servers = start(&Plan { redis: false, ..throwaway() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let session = runtime.block_on(async {
        let mut connection = PgConnection::connect(servers.database_url().unwrap()).await.unwrap();
        let pid: i32 =
            sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut connection).await.unwrap();
        // Left open on purpose.
        std::mem::forget(connection);
        u32::try_from(pid).unwrap()
    });
    send(session, SIGSTOP);
    servers.stop().unwrap();
    await_end_of(&[session]);
}

#[test]
fn a_data_directory_that_is_of_no_use_is_named_in_the_error() {
    for (file, text, words) in [
        ("postgres/PG_VERSION", "9.6\n", "was written by PostgreSQL 9"),
        // The log's last lines.
        ("postgres/postgresql.conf", "nonsense = 1\n", "nonsense"),
    ] {
        let place = place();
        let home = place.path().join("home");
        start(&kept(&home)).stop().unwrap();
        fs::write(home.join(file), text).unwrap();
        let error = Servers::start(&kept(&home)).unwrap_err();
        match file {
            "postgres/PG_VERSION" => assert!(matches!(error, StoresError::Directory(_))),
            _ => assert!(matches!(error, StoresError::Server(_))),
        }
        assert!(error.to_string().contains(words), "{error}");
        assert!(!home.join("servers.json").exists());
    }
}

#[test]
fn a_missing_program_is_an_error_of_the_supervisor() {
    let error = Servers::start_by(Path::new("/nowhere/private-stores"), &throwaway()).unwrap_err();
    assert!(matches!(error, StoresError::Supervisor(_)), "{error:?}");
    let error = Servers::start_by(Path::new("/bin/true"), &throwaway()).unwrap_err();
    assert!(matches!(error, StoresError::Supervisor(_)), "{error:?}");
}

#[test]
fn a_long_temporary_directory_is_passed_over() {
    let place = place();
    let long = place.path().join("x".repeat(100));
    fs::create_dir(&long).unwrap();
    let mut supervisor = RawKeeper::start_in(&long, &Plan { postgres: false, ..throwaway() });
    assert_eq!(ping(supervisor.reply()["redis_url"].as_str().unwrap()), "PONG");
    assert!(supervisor.ends());
}

#[test]
fn an_owner_that_ends_during_the_start_leaves_nothing() {
    let place = place();
    let entries = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).map(|entries| entries.flatten().map(|entry| entry.path()));
        entries.map(Iterator::collect).unwrap_or_default()
    };
    let mut supervisor = RawKeeper::start_in(place.path(), &throwaway());
    await_that("initdb is at work", || {
        entries(place.path()).iter().any(|path| path.join("postgres.unfinished/base").exists())
    });
    drop(supervisor.child.stdin.take());
    assert_eq!(supervisor.reply()["reply"], "failed");
    assert!(supervisor.child.wait().unwrap().success());
    assert_eq!(entries(place.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_home_closed_to_the_servers_user_is_named_in_the_error() {
    if !needs_root() {
        return;
    }
    let closed = place();
    fs::set_permissions(closed.path(), Permissions::from_mode(0o700)).unwrap();
    let home = closed.path().join("home");
    let error = Servers::start(&kept(&home)).unwrap_err();
    assert!(matches!(error, StoresError::Directory(_)), "{error:?}");
    let sentence = error.to_string();
    assert!(sentence.contains(&format!("may not enter {}", closed.path().display())), "{sentence}");
    assert!(sentence.contains("--data-dir"), "{sentence}");
}

#[test]
fn a_closed_home_with_nothing_but_our_files_is_opened() {
    let place = place();
    let home = place.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, Permissions::from_mode(0o700)).unwrap();
    fs::write(home.join("secret"), "s").unwrap();
    start(&kept(&home)).stop().unwrap();
    fs::write(home.join("diary"), "somebody else's").unwrap();
    fs::set_permissions(&home, Permissions::from_mode(0o700)).unwrap();
    assert_eq!(Servers::start(&kept(&home)).is_err(), geteuid().is_root());
}

#[test]
fn an_ordinary_user_keeps_servers_too() {
    if !needs_root() {
        return;
    }
    let user = User::from_name("nobody").unwrap().unwrap();
    let place = place();
    let (_open, program) = open_program("private-stores");
    let home = place.path().join("home");
    fs::create_dir(&home).unwrap();
    nix::unistd::chown(&home, Some(user.uid), Some(user.gid)).unwrap();
    let as_user = |plan: &Plan| {
        let mut command = Command::new(&program);
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw()).current_dir("/");
        RawKeeper::start(&mut command, plan)
    };
    for plan in [throwaway(), kept(&home)] {
        let mut supervisor = as_user(&plan);
        let ready = supervisor.reply();
        assert_eq!(ready["reply"], "ready", "{ready}");
        assert_eq!(sql(ready["database_url"].as_str().unwrap(), "select 1::int8"), 1);
        assert_eq!(ping(ready["redis_url"].as_str().unwrap()), "PONG");
        assert!(supervisor.ends());
        assert!(!Path::new(ready["sockets"].as_str().unwrap()).exists());
    }
    // Another process of the same user now has the number in a stale lock file.
    let mut other = Command::new("sleep").arg("600").uid(user.uid.as_raw()).spawn().unwrap();
    let stale =
        format!("{}\n{}\n0\n5432\n/tmp\n\n0 0\n", other.id(), home.join("postgres").display());
    fs::write(home.join("postgres/postmaster.pid"), stale).unwrap();
    let mut supervisor = as_user(&Plan { redis: false, ..kept(&home) });
    assert_eq!(supervisor.reply()["reply"], "ready");
    assert!(supervisor.ends());
    other.kill().unwrap();
    other.wait().unwrap();
}

/// As OpenShift runs containers. PostgreSQL's own words for it come after it has made files.
#[test]
fn a_user_without_a_name_is_told_before_anything_starts() {
    if !needs_root() {
        return;
    }
    let (place, (_open, program)) = (place(), open_program("private-stores"));
    let (uid, home) = (54_321, place.path().join("home"));
    assert!(User::from_uid(uid.into()).unwrap().is_none());
    std::os::unix::fs::chown(place.path(), Some(uid), Some(uid)).unwrap();
    let answer = |plan: &Plan| {
        let mut command = Command::new(&program);
        command.uid(uid).gid(uid).current_dir("/").env("TMPDIR", place.path());
        let mut supervisor = RawKeeper::start(&mut command, plan);
        let reply = supervisor.reply().to_string();
        supervisor.ends();
        reply
    };
    let refused = answer(&kept(&home));
    assert!(refused.contains("account") && refused.contains("54321"), "{refused}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "something was made");
    // Redis asks for no name.
    let redis = answer(&Plan { postgres: false, ..kept(&home) });
    assert!(redis.contains("redis_url"), "{redis}");
}
