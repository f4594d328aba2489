//! The life of orders against a model: random sequences of steps, by the database's functions and by the API, and steps that
//! meet between any two statements. `ORDER_LIFE_SEED=7` makes other lives, and `ORDER_LIFE_CASES` says how many.

mod case;
mod in_database;
mod meetings;
mod model;
mod named;
mod over_http;
mod runs;
mod scenes;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use testkit::variables;
use tokio::runtime::Runtime;

use in_database::InDatabase;
use meetings::{Meeting, lanes, play};
use model::{Shop, Step};
use over_http::OverHttp;

/// The same lives every time, so that what fails here fails again.
fn seed() -> u64 {
    variables::number("ORDER_LIFE_SEED").unwrap_or(1)
}

fn cases(usual: u32) -> u32 {
    variables::number("ORDER_LIFE_CASES").map_or(usual, |cases| cases.try_into().unwrap())
}

#[test]
fn random_lives_by_the_functions_of_the_database_are_those_of_the_model() {
    runs::run(cases(100), seed(), InDatabase::new);
}

#[test]
fn random_lives_by_the_api_are_those_of_the_model() {
    runs::run(cases(60), seed(), OverHttp::new);
}

#[test]
fn the_model_answers_as_the_documents_say() {
    for (name, life, answers) in named::all() {
        let mut shop = Shop::new(life.terms);
        for (number, (step, answer)) in life.steps.into_iter().zip(answers).enumerate() {
            // Where there is a draw, user 1 has entered alone.
            let said = shop.take(step, &[vec![1], Vec::new()]);
            assert_eq!(said, answer, "{name}: {number}, {step:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn named_lives_are_those_of_the_model() {
    let world = runs::world().await;
    let (mut database, mut api) = (InDatabase::new(&world).await, OverHttp::new(&world).await);
    for (name, life, _) in named::all() {
        println!("{name}");
        let is_known = runs::live(&mut database, &world, &life).await.unwrap();
        assert!(is_known && runs::live(&mut api, &world, &life).await.unwrap(), "it is too busy");
    }
}

#[tokio::test]
async fn two_steps_that_meet_between_any_two_statements_come_to_one_of_their_sequences() {
    let mut lanes = lanes().await;
    let mut meetings = scenes::all(&lanes[0].points);
    // A mutant of one function is caught by those who call it.
    if let Some(mutated) = variables::text("ORDER_LIFE_FUNCTION") {
        meetings.retain(|it| it.steps.iter().any(|step| step.functions().contains(&&*mutated)));
    }
    let (all, played) = (meetings.len(), play(meetings, &mut lanes).await);
    println!("{played} of {all} meetings came about");
    // A step that ends before its stop meets nobody.
    assert!(2 * played >= all, "{played} of {all}");
}

#[test]
fn random_steps_that_meet_after_a_random_life_come_to_one_of_their_sequences() {
    let seed = seed();
    let runtime = Runtime::new().unwrap();
    let mut lanes = runtime.block_on(lanes());
    let random = (runs::lives(), runs::step(), runs::step(), any::<prop::sample::Index>());
    let mut runner = runs::runner(1, seed);
    let mut meetings = Vec::new();
    for _ in 0..cases(100) {
        let (before, first, second, point) = random.new_tree(&mut runner).unwrap().current();
        let points = first
            .functions()
            .iter()
            .flat_map(|name| (0..lanes[0].points[*name]).map(move |at| (*name, at)));
        let points: Vec<_> = points.collect();
        // These are several transactions each.
        let is_long = |it: &Step| matches!(it, Step::Gateway | Step::Says(..) | Step::WindUp);
        if !points.is_empty() && !is_long(&first) && !is_long(&second) {
            meetings.push(Meeting {
                before,
                steps: vec![first, second],
                stop: *point.get(&points),
            });
        }
    }
    println!("seed {seed}");
    let all = meetings.len();
    let played = runtime.block_on(play(meetings, &mut lanes));
    println!("{played} of {all} meetings came about");
    assert!(8 * played >= all, "{played} of {all}");
}
