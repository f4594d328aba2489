//! What the role of a server has to be allowed, and what it may be set to.

use serde_json::Value;
use sqlx::AssertSqlSafe;
use url::Url;

use crate::api::nodes::node;
use crate::database::pooler::world_of_demos;
use testkit::program::Program;
use testkit::shop::api_client::Api;
use testkit::shop::world::{World, run_sql, with_database};

/// What operators run.
const ROLES: &str = include_str!("../../deploy/postgres/roles.sql");

/// The two roles under names of this test's own, for the roles of all databases are the same.
struct Roles {
    server: String,
    reader: String,
}

impl Roles {
    async fn of(world: &World) -> Self {
        let name = Url::parse(&world.database_url).unwrap().path()[1..].to_owned();
        let (server, reader) = (format!("s_{name}"), format!("r_{name}"));
        let sql = ROLES.replace("seckill_server", &server).replace("seckill_reader", &reader);
        // Twice, as after a later migration.
        for _ in 0..2 {
            sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(world.database.pool()).await.unwrap();
        }
        Self { server, reader }
    }

    async fn end(self, world: &World) {
        for role in [self.server, self.reader] {
            let drop = format!("drop owned by {role}; drop role {role}");
            sqlx::raw_sql(AssertSqlSafe(drop)).execute(world.database.pool()).await.unwrap();
        }
    }
}

fn url_as(role: &str, world: &World) -> String {
    let mut url = Url::parse(&world.database_url).unwrap();
    url.set_username(role).unwrap();
    url.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_makes_no_tables_serves_and_one_that_reads_audits() {
    let world = World::new().await;
    world.at_present().await;
    let roles = Roles::of(&world).await;
    let server = World { database_url: url_as(&roles.server, &world), ..World::new().await };
    let admin = world.admin_token(1).await;
    world.users(3).await;
    let serving =
        World { secret: world.secret.clone(), redis_url: world.redis_url.clone(), ..server };
    let node = node(&serving, &["--payments", "sandbox"]).await;
    let api = Api::at(world, node.address);
    let terms = serde_json::json!({
        "title": "one", "stock": 2, "price": 100,
        "begin_time": "2020-01-01T00:00:00Z", "end_time": "2100-01-01T00:00:00Z",
    });
    let added = api.call_with("POST", "/api/vouchers", &admin, &terms).await;
    let voucher = added.is(201).text_of("id").to_owned();
    let order = api.buy(2, &voucher).await.is(201).text_of("order_id").to_owned();
    let payment = api.own_payment(2, &order).await;
    api.pay_in_sandbox(&payment).await;
    assert_eq!(api.status(2, &order).await, "paid");
    let cancelled = api.buy(3, &voucher).await.is(201).text_of("order_id").to_owned();
    api.own_step(3, &cancelled, "cancellation").await.is(200);
    let line = serde_json::json!({
        "title": "drawn", "stock": 1, "begin_time": "2020-01-01T00:00:00Z", "end_time": "2100-01-01T00:00:00Z",
        "draw_time": "2099-01-01T00:00:00Z",
    });
    let added = api.call_with("POST", "/api/vouchers", &admin, &line).await;
    let path = format!("/api/vouchers/{}/entries", added.is(201).text_of("id"));
    api.call_as(3, "POST", &path).await.is(201);
    api.call_as(3, "DELETE", &path).await.is(204);
    api.call("GET", "/api/events/log", &admin).await.is(200);
    drop(node);

    let reader = url_as(&roles.reader, &api.world);
    let reader = Program::on(&api.world).with("DATABASE_URL", &reader);
    assert!(reader.says(&["audit"]).await.contains("holds"));
    assert!(reader.says(&["voucher", "list"]).await.contains("one"));
    assert!(reader.says(&["orders", "export", "--status", "paid"]).await.contains(&order));
    let phone = "+99900000000003";
    assert!(reader.says(&["user", "show", phone]).await.contains("\"cancelled\""));
    let erase = ["user", "erase", phone, "--yes"];
    assert_eq!(reader.run(&erase).await.status, 1);
    let seller = Program::on(&api.world).with("DATABASE_URL", &url_as(&roles.server, &api.world));
    assert_eq!(seller.says(&erase).await, "user 3 is erased\n");
    // It may not write.
    let edited = reader.run(&["voucher", "pause", &voucher]).await;
    assert_eq!(edited.status, 1, "{edited:?}");
    let empty = format!("e_{}", uuid::Uuid::new_v4().simple());
    run_sql(&api.world.database_url, &format!("create database {empty}")).await;
    let empty = with_database(&url_as(&roles.server, &api.world), &empty);
    let server = Program::on(&api.world).with("DATABASE_URL", &empty).with("RUST_LOG", "error");
    for command in [&["migrate"][..], &["serve", "--listen", "127.0.0.1:0"], &["voucher", "list"]] {
        server.run(command).await.refused(2, "run seckill migrate as the owner of the tables");
    }
    roles.end(&api.world).await;
}

/// One that waited for a row would fail for what was committed meanwhile, whole batches at a time.
#[tokio::test(flavor = "multi_thread")]
async fn the_isolation_that_a_database_asks_for_costs_no_buyer_a_503() {
    for isolation in ["serializable", "'repeatable read'"] {
        let world = world_of_demos(&[("default_transaction_isolation", isolation)]).await;
        let demo = "--stock 1000 --users 3000 --attempts 3 --nodes 2";
        let verdict = Program::on(&world).demo(demo).await;
        assert_eq!(verdict["holds"], true, "{isolation}: {verdict}");
        assert_eq!(verdict["outcomes"]["unavailable"], Value::Null, "{isolation}: {verdict}");
    }
}
