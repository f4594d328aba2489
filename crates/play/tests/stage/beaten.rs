//! Which designs the crowd of a rush breaks: measured, for the list beside the stage.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ladder::RUNGS;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{server, stage};
use testkit::shop::private_server::PrivateServer;

/// Buyers: as many as find two who read together, and few enough for every rung.
const USERS: u32 = 2_000;

/// A show is broken off before that.
const SHOW_WITHIN: Duration = Duration::from_secs(400);

/// How often a rung meets the crowd: one that breaks now and then is not listed.
const ROUNDS: usize = 2;

/// What the judge counts that no slow machine brings about.
const WRONG: [&str; 4] = ["oversold", "duplicates", "undersold", "lost"];

/// The rung's verdict; nothing where it came to no end.
async fn until_judged(server: &PrivateServer) -> Value {
    let over = async {
        loop {
            let shown = stage(server).await;
            if ["ended", "failed"].contains(&shown["phase"].as_str().unwrap()) {
                return shown["halves"][1]["verdict"].clone();
            }
        }
    };
    timeout(SHOW_WITHIN, over).await.unwrap()
}

#[ignore = "`make beaten` runs it; many minutes"]
#[tokio::test(flavor = "multi_thread")]
async fn write_what_the_crowd_breaks() {
    let server = server(USERS, 5).await;
    let mut beaten = String::new();
    for rung in RUNGS {
        let mut breaks = 0;
        for _ in 0..ROUNDS {
            let show = json!({ "crowd": "rush", "against": rung.id });
            server.api.post("/api/stage/shows", &show).await.is(202);
            let verdict = until_judged(&server).await;
            let is_wrong = |figure: &&str| verdict[figure].as_i64().is_some_and(|it| it > 0);
            breaks += usize::from(WRONG.iter().any(is_wrong));
            println!("{}: {verdict}", rung.id);
            if breaks == 0 {
                break;
            }
        }
        if breaks == ROUNDS {
            beaten += &format!("{}\n", rung.id);
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stage/beaten.txt");
    fs::write(file, beaten).unwrap();
}
