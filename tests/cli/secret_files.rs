//! Secrets that stand in files, and stores that nobody meant to be private.

use std::fs;

use testkit::processes::{Node, place, seckill};
use testkit::program::{Program, Ran, finished};
use testkit::shop::api_client::Client;
use testkit::shop::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn each_secret_is_also_read_from_a_file() {
    let world = World::new().await;
    let by_variables = Program::on(&world);
    let mut program = Program::alone().with("SECKILL_KEY_PREFIX", world.keys.prefix());
    for (name, value) in [
        ("DATABASE_URL", &world.database_url),
        ("REDIS_URL", &world.redis_url),
        ("SECKILL_SECRET", &world.secret),
    ] {
        let file = by_variables.file(name);
        // As editors and `openssl rand` leave it.
        fs::write(&file, format!("{value}\n")).unwrap();
        program = program.with(&format!("{name}_FILE"), file.to_str().unwrap());
    }
    let add = ["voucher", "add", "--title", "t", "--stock", "1"];
    let id = program.says(&add).await;
    assert!(by_variables.says(&["voucher", "list"]).await.contains(id.trim()));
    let out = by_variables.file("tokens.csv");
    program.says(&["tokens", "--users", "1", "--out", out.to_str().unwrap()]).await;
    assert!(fs::read_to_string(out).unwrap().contains("1,"));
    // What a file says is refused in the words of the variable, and is not repeated.
    let file = by_variables.file("SECKILL_SECRET");
    fs::write(&file, "hunter2\n").unwrap();
    let ran = program.run(&["serve"]).await;
    ran.refused(2, "at least 16 bytes");
    assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
    let help = program.run(&["serve", "--help"]).await;
    assert!(!format!("{help:?}").contains("hunter2") && !help.stdout.contains(&world.secret));
    // A flag wins.
    let secret = "0123456789abcdef";
    let missing = ["serve", "--secret", secret, "--database-url", "mysql://h"];
    program.run(&missing).await.refused(2, "--database-url");
}

/// A pipe says once what it has to say: `DATABASE_URL_FILE=<(...)` of a shell.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_secret_is_read_once_at_the_start() {
    let world = World::new().await;
    let program = Program::on(&world);
    let pipe = program.file("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let program = Program::alone().with("DATABASE_URL_FILE", pipe.to_str().unwrap());
    let url = world.database_url.clone();
    let says = tokio::task::spawn_blocking(move || fs::write(pipe, url).unwrap());
    program.says(&["migrate"]).await;
    says.await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_of_no_use_ends_the_program() {
    let place = Program::alone();
    let empty = place.file("empty");
    fs::write(&empty, "\n").unwrap();
    let empty = empty.to_str().unwrap();
    for name in [
        "DATABASE_URL",
        "REDIS_URL",
        "SECKILL_SECRET",
        "SECKILL_SECRET_PREVIOUS",
        "SECKILL_SMS_URL",
        "SECKILL_SMS_SECRET",
        "SECKILL_PAYMENTS_URL",
        "SECKILL_PAYMENTS_SECRET",
        "SECKILL_PAYMENTS_SECRET_PREVIOUS",
        "SECKILL_EVENTS_URL",
        "SECKILL_EVENTS_SECRET",
    ] {
        let of_file = format!("{name}_FILE");
        for (path, words) in [
            ("/no/such/file", "names /no/such/file".to_owned()),
            (empty, format!("names {empty}, which is empty")),
            ("", "is set but empty".to_owned()),
        ] {
            let ran = Program::alone().with(&of_file, path).run(&["serve"]).await;
            ran.refused(2, &format!("{of_file} {words}"));
        }
        let both = Program::alone().with(&of_file, file!()).with(name, "x");
        both.run(&["serve"]).await.refused(2, &format!("{of_file} and {name} are both set"));
    }
}

#[tokio::test]
async fn private_stores_do_not_stand_in_for_stores_that_somebody_meant() {
    let add = ["voucher", "add", "--title", "t", "--stock", "1"];
    for (name, value, unset) in [
        ("PGHOST", "db.example", "DATABASE_URL"),
        ("PGDATABASE", "shop", "DATABASE_URL"),
        ("PGSERVICE", "shop", "DATABASE_URL"),
        ("POSTGRES_URL", "postgres://u@h/d", "DATABASE_URL"),
        ("REDIS_URL", "redis://127.0.0.1:1", "DATABASE_URL"),
        ("REDIS_HOST", "redis.example", "REDIS_URL"),
    ] {
        let program = Program::alone().with(name, value);
        let words = format!("{name} is set and {unset} is not");
        for arguments in [&["serve"][..], &["doctor"], &add, &["audit"], &["migrate"]] {
            let ran = program.run(arguments).await;
            assert!(ran.status == 2 && ran.stderr.contains(&words), "{arguments:?}: {ran:?}");
        }
    }
    let url = "postgres://u@127.0.0.1:1/d";
    let one = Program::alone().with("DATABASE_URL", url).with("SECKILL_SECRET", "0123456789abcdef");
    one.run(&["serve"]).await.refused(2, "DATABASE_URL is set and REDIS_URL is not");
    // What needs no Redis takes none of its own.
    one.run(&["migrate"]).await.refused(1, "PostgreSQL is unavailable");
    let former = Program::alone().with("SECKILL_SECRET_PREVIOUS", "0123456789abcdef");
    let named = former.with("DATABASE_URL", url).with("REDIS_URL", "redis://127.0.0.1:1");
    named.run(&["serve"]).await.refused(2, "SECKILL_SECRET is required");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_private_stores_says_which_it_used() {
    let place = place();
    let data = place.path().join("data");
    let mut command = seckill(&["voucher", "list", "--private-stores", "--data-dir"]);
    command.arg(&data).env("PGHOST", "db.example");
    let ran = Ran::from(finished(command).await);
    assert_eq!(ran.status, 0, "{ran:?}");
    let words = format!("seckill: using private PostgreSQL and Redis in {}\n", data.display());
    assert_eq!(ran.stderr, words);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_new_secret_logs_nobody_out_while_the_former_one_is_named() {
    let world = World::new().await;
    world.at_present().await;
    world.users(1).await;
    let token = world.token(1);
    let new = || Program::on(&world).with("SECKILL_SECRET", "the new secret, long enough");
    for (program, expected) in
        [(new().with("SECKILL_SECRET_PREVIOUS", &world.secret), 200), (new(), 401)]
    {
        let server = Node::serve(&program, &[]).await;
        Client::at(server.address).call("GET", "/api/me", &token).await.is(expected);
        server.stop().await;
    }
}
