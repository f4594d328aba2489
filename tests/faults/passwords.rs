//! A role whose password is wrong, or changes while servers run, and a database that is not ours.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use redis_link::Redis;
use seckill::purchase::Strategy;
use serde_json::Value;
use tempfile::TempDir;
use testkit::processes::Node;
use testkit::program::Program;
use testkit::wait::eventually;
use tokio::process::Command;
use url::Url;

use super::stage::Stage;

/// A server on which the role `shop` shows a password, and all others do not.
struct Guarded {
    stage: Stage,
    place: TempDir,
}

impl Guarded {
    async fn new() -> Self {
        let stage = Stage::new(Strategy::GroupCommit).await;
        let guarded = Self { stage, place: tempfile::tempdir().unwrap() };
        guarded.run("create role shop superuser login").await;
        let pool = &guarded.stage.pool;
        let file = sqlx::query_scalar("show hba_file").fetch_one(pool).await;
        let file: String = file.unwrap();
        fs::write(file, "local all shop scram-sha-256\nlocal all all trust\n").unwrap();
        guarded.run("select pg_reload_conf()").await;
        guarded
    }

    async fn run(&self, statement: &'static str) {
        sqlx::raw_sql(statement).execute(&self.stage.pool).await.unwrap();
    }

    /// From now on it is this one, and sessions that showed another are ended.
    async fn password_is(&self, password: &'static str) {
        let set = format!(
            "alter role shop password '{password}';
             select pg_terminate_backend(pid) from pg_stat_activity where usename = 'shop'"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(set)).execute(&self.stage.pool).await.unwrap();
    }

    fn url(&self, role: &str, password: Option<&str>, database: &str) -> String {
        let mut url = Url::parse(&self.stage.database_url).unwrap();
        url.set_username(role).unwrap();
        url.set_password(password).unwrap();
        url.set_path(database);
        url.into()
    }

    /// Of the role that needs no password.
    fn url_of(&self, database: &str) -> String {
        self.url("postgres", None, database)
    }

    /// The same with more parameters.
    fn url_with(&self, role: &str, parameters: &[(&str, &str)]) -> String {
        let mut url = Url::parse(&self.url(role, None, "seckill")).unwrap();
        url.query_pairs_mut().extend_pairs(parameters);
        url.into()
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.place.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A server that reads `variable` from a file, in which `text` stands; not started yet.
    fn serve_by(&self, variable: &str, text: &str) -> Command {
        let mut command = self.stage.serve("");
        command.env_remove("DATABASE_URL").env(variable, self.write("file", text));
        command.env("RUST_LOG", "info").stderr(Stdio::piped());
        command
    }

    async fn node_by_file(&self, url: &str) -> Node {
        Node::start(&mut self.serve_by("DATABASE_URL_FILE", url)).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_changes_in_the_file_of_the_url_or_of_passwords_is_read_again() {
    for variable in ["DATABASE_URL_FILE", "PGPASSFILE"] {
        let guarded = Guarded::new().await;
        let is_url = variable == "DATABASE_URL_FILE";
        let text = |password: &str| match is_url {
            true => guarded.url("shop", Some(password), "seckill"),
            false => format!("*:*:*:shop:{password}\n"),
        };
        guarded.password_is("one").await;
        let mut command = guarded.serve_by(variable, &text("one"));
        if !is_url {
            command.env("DATABASE_URL", guarded.url("shop", None, "seckill"));
        }
        let node = Node::start(&mut command).await;
        guarded.stage.served(&node, 1).await;

        guarded.password_is("two").await;
        eventually("the log says what is wrong now", async || {
            guarded.stage.buy(node.address, 2).await;
            node.log().contains("password authentication failed for user \"shop\"")
        })
        .await;
        guarded.write("file", &text("two"));
        guarded.stage.served(&node, 2).await;
        drop(node);
        guarded.stage.end().await;
    }
}

/// What a server says of Redis.
async fn redis_of(guarded: &Guarded, node: &Node) -> Value {
    let url = format!("http://{}/readyz", node.address);
    let answer = guarded.stage.client.get(url).send().await.unwrap();
    answer.json::<Value>().await.unwrap()["redis"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_of_redis_that_changes_in_its_file_is_read_again() {
    let guarded = Guarded::new().await;
    let redis = Redis::new(&guarded.stage.redis_url).unwrap();
    let password_is = async |password: &str| {
        let mut set = redis::cmd("ACL");
        set.arg(&["SETUSER", "shop", "reset", "on", "~*", "&*", "+@all"]);
        redis.query::<()>(set.arg(format!(">{password}"))).await.unwrap();
        redis.query::<i64>(redis::cmd("CLIENT").arg(&["KILL", "USER", "shop"])).await.unwrap();
    };
    let url = |password: &str| {
        let mut url = Url::parse(&guarded.stage.redis_url).unwrap();
        url.query_pairs_mut().append_pair("user", "shop").append_pair("pass", password);
        String::from(url)
    };
    password_is("one").await;
    let mut command = guarded.stage.serve(&guarded.stage.database_url);
    command.env_remove("REDIS_URL").env("REDIS_URL_FILE", guarded.write("file", &url("one")));
    command.env("RUST_LOG", "info").stderr(Stdio::piped());
    let node = Node::start(&mut command).await;
    guarded.stage.served(&node, 1).await;

    password_is("two").await;
    eventually("the server says what is wrong now", async || {
        guarded.stage.buy(node.address, 2).await;
        redis_of(&guarded, &node).await == "refused" && node.log().contains("says \"WRONGPASS\"")
    })
    .await;
    guarded.write("file", &url("two"));
    guarded.stage.served(&node, 2).await;
    eventually("it is well", async || redis_of(&guarded, &node).await == "ok").await;
    drop(node);
    guarded.stage.end().await;
}

const END_ALL: &str = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'seckill %'";

/// A process that sells from two databases sells twice what both of them have. In none of the other places is a sale:
/// whoever connects there sells nothing. Each text that is of no use is told by itself: it may have been half written.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_comes_to_name_another_database_is_for_the_next_start_and_is_told() {
    let guarded = Guarded::new().await;
    guarded.run("create role seckill superuser login").await;
    let elsewhere = [("options", "-csearch_path=nowhere")];
    let another = "names another server or database";
    let mut buyers = 1..;
    for (first, then) in [
        (guarded.url_of("seckill"), guarded.url_of("elsewhere")),
        // Without a name, the database is that of the user.
        (guarded.url("seckill", None, ""), guarded.url_of("")),
        (guarded.url_of("seckill"), guarded.url_with("seckill", &elsewhere)),
        (guarded.url_of("seckill"), guarded.url_with("postgres", &elsewhere)),
    ] {
        let node = guarded.node_by_file(&first).await;
        guarded.stage.served(&node, buyers.next().unwrap()).await;
        for (text, words, times) in [
            (guarded.url_of("seck"), "/seck: ", 1),
            ("postg".to_owned(), "it must begin with postgres://", 1),
            (then, another, 2),
        ] {
            guarded.write("file", &text);
            eventually(words, async || node.log().matches(words).count() == times).await;
        }
        guarded.run(END_ALL).await;
        for buyer in buyers.by_ref().take(18) {
            guarded.stage.served(&node, buyer).await;
        }
    }
    guarded.stage.end().await;
}

/// Each is told once, by its name: a value may be a password, and the file is read twice a second.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_are_not_supported_are_told_once_and_without_their_values() {
    let guarded = Guarded::new().await;
    let mut parameters = vec![("sslpassword", "hush-one"), ("channel_binding", "require")];
    let node = guarded.node_by_file(&guarded.url_with("postgres", &parameters)).await;
    for name in ["target_session_attrs", "passfile"] {
        // It has been read again.
        parameters.push((name, "hush-two"));
        guarded.write("file", &guarded.url_with("postgres", &parameters));
        let words = format!("the parameter {name}, which is not supported");
        eventually(&words, async || node.log().contains(&words)).await;
    }
    guarded.stage.served(&node, 1).await;
    let log = node.stop().await;
    for (name, value) in parameters {
        assert_eq!(log.matches(name).count(), 1, "{name}: {log}");
        assert!(!log.contains(value), "{log}");
    }
    guarded.stage.end().await;
}

/// The database that a server waits for takes no writes, and lacks the tables. Then the file names another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_waited_for_one_database_and_found_another_has_no_connection_to_the_first() {
    let guarded = Guarded::new().await;
    for statement in
        ["create database empty", "alter database empty set default_transaction_read_only = on"]
    {
        guarded.run(statement).await;
    }
    let mut command = guarded.serve_by("DATABASE_URL_FILE", &guarded.url_of("empty"));
    // It is to be read before there is a node.
    let log = tempfile::NamedTempFile::new().unwrap();
    command.stderr(log.reopen().unwrap());
    let node = tokio::spawn(async move { Node::start(&mut command).await });
    eventually("the server waits", async || {
        fs::read_to_string(log.path()).unwrap().contains("waiting for the database")
    })
    .await;
    guarded.write("file", &guarded.stage.database_url);
    let node = node.await.unwrap();
    guarded.stage.served(&node, 1).await;
    let databases = sqlx::query_scalar(
        "select distinct datname from pg_stat_activity where application_name like 'seckill %'",
    );
    let databases: Vec<String> = databases.fetch_all(&guarded.stage.pool).await.unwrap();
    assert_eq!(databases, ["seckill"]);
    drop(node);
    guarded.stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_waiting_mends_ends_a_start_with_one_sentence() {
    let guarded = Guarded::new().await;
    guarded.password_is("one").await;
    guarded.run("create database nothing").await;
    guarded.run("create database foreigner").await;
    let foreign = sqlx::PgPool::connect(&guarded.url_of("foreigner")).await.unwrap();
    sqlx::raw_sql("create table users (name text)").execute(&foreign).await.unwrap();
    foreign.close().await;
    for (url, words) in [
        (
            guarded.url("shop", Some("two"), "seckill"),
            "password authentication failed for user \"shop\"",
        ),
        (guarded.url("nobody_here", None, "seckill"), "role \"nobody_here\" does not exist"),
        (guarded.url_of("no_such_database"), "database \"no_such_database\" does not exist"),
        (guarded.url_of("foreigner"), "tables of another program"),
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
        program.with("DATABASE_URL", &guarded.url_of("nothing")).says(&["migrate"]).await;
    }
    guarded.stage.end().await;
}
