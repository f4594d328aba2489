//! A role whose password is wrong, or changes while servers run, and a database that is not ours.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use seckill::purchase::Strategy;
use tempfile::TempDir;
use testkit::processes::Node;
use testkit::program::Program;
use testkit::wait::eventually;
use tokio::process::Command;
use url::Url;

use super::crowd::What;
use super::stage::Stage;

/// A server on which the role `shop` shows a password, and all others do not.
struct Guarded {
    stage: Stage,
    place: TempDir,
}

impl Guarded {
    async fn new() -> Self {
        let stage = Stage::new(Strategy::GroupCommit).await;
        sqlx::raw_sql("create role shop superuser login").execute(&stage.pool).await.unwrap();
        let file = sqlx::query_scalar("show hba_file").fetch_one(&stage.pool).await;
        let file: String = file.unwrap();
        fs::write(file, "local all shop scram-sha-256\nlocal all all trust\n").unwrap();
        sqlx::raw_sql("select pg_reload_conf()").execute(&stage.pool).await.unwrap();
        Self { stage, place: tempfile::tempdir().unwrap() }
    }

    /// From now on it is this one, and sessions that showed another are ended.
    async fn password_is(&self, password: &'static str) {
        let set = format!(
            "alter role shop password '{password}';
             select pg_terminate_backend(pid) from pg_stat_activity where usename = 'shop'"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(set)).execute(&self.stage.pool).await.unwrap();
    }

    fn url(&self, role: &str, password: Option<&str>) -> String {
        let mut url = Url::parse(&self.stage.database_url).unwrap();
        url.set_username(role).unwrap();
        url.set_password(password).unwrap();
        url.into()
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.place.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    async fn sells(&self, node: &Node, buyer: i64) {
        eventually("it sells", async || {
            let told = self.stage.buy(node.address, buyer).await;
            matches!(told, What::Ordered(_) | What::AlreadyBought(_))
        })
        .await;
    }
}

/// Where a password stands, and how a server is told of it.
async fn a_new_password_is_read(
    variable: &str,
    text: impl Fn(&Guarded, &str) -> String,
    url: impl Fn(&Guarded) -> Option<String>,
) {
    let guarded = Guarded::new().await;
    guarded.password_is("one").await;
    let file = guarded.write("file", &text(&guarded, "one"));
    let listen = ([127, 0, 0, 1], 0).into();
    let mut command = guarded.stage.serve(listen, "", &guarded.stage.redis_url);
    match url(&guarded) {
        Some(url) => command.env("DATABASE_URL", url),
        None => command.env_remove("DATABASE_URL"),
    };
    let log = guarded.write("log", "");
    command.env(variable, &file).env("RUST_LOG", "warn");
    command.stderr(Stdio::from(fs::File::create(&log).unwrap()));
    let node = Node::start(&mut command).await;
    guarded.sells(&node, 1).await;

    guarded.password_is("two").await;
    let why = "password authentication failed for user \"shop\"";
    eventually("the log says what is wrong now", async || {
        guarded.stage.buy(node.address, 2).await;
        fs::read_to_string(&log).unwrap().contains(why)
    })
    .await;
    guarded.write("file", &text(&guarded, "two"));
    guarded.sells(&node, 2).await;
    drop(node);
    guarded.stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_changes_in_the_file_of_the_url_is_read_again() {
    let text = |guarded: &Guarded, password: &str| guarded.url("shop", Some(password));
    a_new_password_is_read("DATABASE_URL_FILE", text, |_| None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_changes_in_the_file_of_passwords_is_read_again() {
    let text = |_: &Guarded, password: &str| format!("*:*:*:shop:{password}\n");
    a_new_password_is_read("PGPASSFILE", text, |guarded| Some(guarded.url("shop", None))).await;
}

/// A server that reads the URL of its database from a file, and the file of its log.
struct ByFile {
    node: Node,
    log: String,
}

impl ByFile {
    async fn start(guarded: &Guarded, url: &str) -> Self {
        guarded.write("url", url);
        let log = guarded.write("log", "");
        let node = Node::start(&mut serve_by_file(guarded, &log)).await;
        Self { node, log }
    }

    async fn says(&self, words: &str) {
        let says = || fs::read_to_string(&self.log).unwrap().contains(words);
        eventually(&format!("the log says: {words}"), async || says()).await;
    }
}

fn serve_by_file(guarded: &Guarded, log: &str) -> Command {
    let listen = ([127, 0, 0, 1], 0).into();
    let mut command = guarded.stage.serve(listen, "", &guarded.stage.redis_url);
    let file = guarded.place.path().join("url");
    command.env_remove("DATABASE_URL").env("DATABASE_URL_FILE", file).env("RUST_LOG", "info");
    command.stderr(Stdio::from(fs::File::create(log).unwrap()));
    command
}

const END_ALL: &str = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'seckill %'";

/// A process that sells from two databases sells twice what both of them have. In none of the other places is a sale:
/// whoever connects there sells nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_comes_to_name_another_database_is_for_the_next_start() {
    let guarded = Guarded::new().await;
    sqlx::raw_sql("create role seckill superuser login")
        .execute(&guarded.stage.pool)
        .await
        .unwrap();
    let with_path = |role: &str, path: &str| {
        let mut url = Url::parse(&guarded.url(role, None)).unwrap();
        url.set_path(path);
        String::from(url)
    };
    let elsewhere_by_options = |role: &str| {
        let mut url = Url::parse(&guarded.url(role, None)).unwrap();
        url.query_pairs_mut().append_pair("options", "-csearch_path=nowhere");
        String::from(url)
    };
    let mut buyers = 1..;
    for (first, then) in [
        (with_path("postgres", "seckill"), with_path("postgres", "elsewhere")),
        // Without a name, the database is that of the user.
        (with_path("seckill", ""), with_path("postgres", "")),
        (with_path("postgres", "seckill"), elsewhere_by_options("seckill")),
        (with_path("postgres", "seckill"), elsewhere_by_options("postgres")),
    ] {
        let server = ByFile::start(&guarded, &first).await;
        guarded.sells(&server.node, buyers.next().unwrap()).await;
        guarded.write("url", &then);
        server.says("names another server or database").await;
        sqlx::query(END_ALL).execute(&guarded.stage.pool).await.unwrap();
        for buyer in buyers.by_ref().take(18) {
            guarded.sells(&server.node, buyer).await;
        }
    }
    guarded.stage.end().await;
}

/// Each text that is of no use is told by itself, and not only the first one: it may have been half written.
#[tokio::test(flavor = "multi_thread")]
async fn each_text_of_the_file_that_is_not_used_is_told() {
    let guarded = Guarded::new().await;
    let with_path = |path: &str| {
        let mut url = Url::parse(&guarded.stage.database_url).unwrap();
        url.set_path(path);
        String::from(url)
    };
    let server = ByFile::start(&guarded, &with_path("seckill")).await;
    for (text, words) in [
        (with_path("seck"), "/seck: "),
        ("postg".to_owned(), "it must begin with postgres://"),
        (with_path("elsewhere"), "/elsewhere: "),
    ] {
        guarded.write("url", &text);
        server.says(words).await;
    }
    guarded.sells(&server.node, 1).await;
    drop(server);
    guarded.stage.end().await;
}

/// Each is told once, by its name: a value may be a password, and the file is read twice a second.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_are_not_supported_are_told_once_and_without_their_values() {
    let guarded = Guarded::new().await;
    let with = |parameters: &[(&str, &str)]| {
        let mut url = Url::parse(&guarded.stage.database_url).unwrap();
        url.query_pairs_mut().extend_pairs(parameters);
        String::from(url)
    };
    let mut parameters = vec![("sslpassword", "hush-one"), ("channel_binding", "require")];
    let server = ByFile::start(&guarded, &with(&parameters)).await;
    for name in ["target_session_attrs", "passfile"] {
        // It has been read again.
        parameters.push((name, "hush-two"));
        guarded.write("url", &with(&parameters));
        server.says(&format!("the parameter {name}, which is not supported")).await;
    }
    guarded.sells(&server.node, 1).await;
    let log = fs::read_to_string(&server.log).unwrap();
    for (name, value) in parameters {
        assert_eq!(log.matches(name).count(), 1, "{name}: {log}");
        assert!(!log.contains(value), "{log}");
    }
    drop(server);
    guarded.stage.end().await;
}

/// The database that a server waits for takes no writes, and lacks the tables. Then the file names another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_waited_for_one_database_and_found_another_has_no_connection_to_the_first() {
    let guarded = Guarded::new().await;
    let pool = &guarded.stage.pool;
    for statement in
        ["create database empty", "alter database empty set default_transaction_read_only = on"]
    {
        sqlx::raw_sql(statement).execute(pool).await.unwrap();
    }
    let mut url = Url::parse(&guarded.stage.database_url).unwrap();
    url.set_path("empty");
    guarded.write("url", url.as_str());
    let log = guarded.write("log", "");
    let mut command = serve_by_file(&guarded, &log);
    let node = tokio::spawn(async move { Node::start(&mut command).await });
    eventually("the server waits", async || {
        fs::read_to_string(&log).unwrap().contains("waiting for the database")
    })
    .await;
    guarded.write("url", &guarded.stage.database_url);
    let node = node.await.unwrap();
    guarded.sells(&node, 1).await;
    let databases = sqlx::query_scalar(
        "select distinct datname from pg_stat_activity where application_name like 'seckill %'",
    );
    let databases: Vec<String> = databases.fetch_all(pool).await.unwrap();
    assert_eq!(databases, ["seckill"]);
    drop(node);
    guarded.stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_waiting_mends_ends_a_start_with_one_sentence() {
    let guarded = Guarded::new().await;
    guarded.password_is("one").await;
    sqlx::raw_sql("create database nothing").execute(&guarded.stage.pool).await.unwrap();
    sqlx::raw_sql("create database foreigner").execute(&guarded.stage.pool).await.unwrap();
    let with_path = |path: &str| {
        let mut url = Url::parse(&guarded.stage.database_url).unwrap();
        url.set_path(path);
        String::from(url)
    };
    let foreign = sqlx::PgPool::connect(&with_path("foreigner")).await.unwrap();
    sqlx::raw_sql("create table users (name text)").execute(&foreign).await.unwrap();
    foreign.close().await;
    for (url, words) in [
        (guarded.url("shop", Some("two")), "password authentication failed for user \"shop\""),
        (guarded.url("nobody_here", None), "role \"nobody_here\" does not exist"),
        (with_path("no_such_database"), "database \"no_such_database\" does not exist"),
        (with_path("foreigner"), "tables of another program"),
    ] {
        let program = Program::alone()
            .with("DATABASE_URL", &url)
            .with("REDIS_URL", &guarded.stage.redis_url)
            .with("SECKILL_SECRET", "0123456789abcdef")
            .with("SECKILL_SMS", "log")
            .with("SECKILL_PAYMENTS", "sandbox")
            .with("RUST_LOG", "error");
        for arguments in [&["migrate"][..], &["serve", "--listen", "127.0.0.1:0"]] {
            program.run(arguments).await.refused(2, words);
        }
        // One that is right lets the same program in.
        program.with("DATABASE_URL", &with_path("nothing")).says(&["migrate"]).await;
    }
    guarded.stage.end().await;
}
