//! The examples that ship, on what they are for.

use serde_json::Value;
use testkit::processes::{place, program};
use testkit::shop::world::World;

use seckill_tools::check::presets::example;

use super::shop::{Design, Shop};
use super::{QUIET, check_in, command};

#[tokio::test(flavor = "multi_thread")]
async fn the_example_for_the_server_judges_the_server_itself_over_two_nodes() {
    let world = World::new().await;
    world.at_present().await;
    world.users(60).await;
    let voucher = world.voucher(10).await;
    let nodes = [world.serve().await, world.serve().await];
    let place = place();
    let tokens: String = (1..=60).map(|user| format!("{user},{}\n", world.token(user))).collect();
    std::fs::write(place.path().join("tokens.csv"), format!("user_id,token\n{tokens}")).unwrap();
    let text = example("seckill")
        .unwrap()
        .replace(
            "\"http://127.0.0.1:8080\"",
            &format!("\"http://{}\", \"http://{}\"", nodes[0], nodes[1]),
        )
        .replace("voucher = \"1\"", &format!("voucher = \"{}\"", voucher.id));
    let programs = program("seckill").parent().unwrap().display().to_string();
    let output = command(place.path(), &text)
        .args(["--users", "60", "--json", "-"])
        .env("PATH", format!("{programs}:/usr/bin:/bin"))
        .env("DATABASE_URL", &world.database_url)
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["holds"], &result["vouchers"][0]["orders"]), (&true.into(), &10.into()));
    assert_eq!(result["vouchers"][0]["remaining"], 0, "{result:#}");
    assert_eq!(world.audit().await.orders, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_for_the_course_application_reads_its_answers() {
    let shop = Shop::start(Design::Right).await;
    let text = example("hmdp").unwrap();
    let (text, _) = text.split_once("[books]").unwrap();
    let text = text
        .replace("127.0.0.1:8081", &shop.addresses[0].to_string())
        .replace("voucher = 7", &format!("voucher = {}", shop.voucher(30, &[])))
        + "[books]\nrequest = { path = \"/books/{voucher}\" }\n"
        + QUIET;
    let place = place();
    let tokens: String = (1..=40).map(|user| format!("{user}\n")).collect();
    std::fs::write(place.path().join("tokens.txt"), tokens).unwrap();
    let checked = check_in(place.path(), &text, &[]).await;
    checked.is_judged(&[], &[]);
    let outcomes = checked["outcomes"].as_object().unwrap();
    let codes: Vec<&str> = outcomes.keys().map(String::as_str).collect();
    assert_eq!(codes, ["already_bought", "ordered", "sold_out"], "{checked:#?}");
    assert_eq!(outcomes["ordered"], 30, "{checked:#?}");
}
