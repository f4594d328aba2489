//! A result that cannot be written is refused before the work, of which nothing is left.

use std::fs;

use testkit::processes::place;
use testkit::program::Program;

const WITH_OUTPUT: [&[&str]; 6] = [
    &["demo", "--json"],
    &["check", "seckill", "--json"],
    &["check", "seckill", "--html"],
    &["ceiling", "--json"],
    &["tokens", "--users", "1", "--out"],
    &["audit", "--json"],
];

#[tokio::test]
async fn a_result_that_cannot_be_written_is_refused_at_the_start() {
    for command in WITH_OUTPUT {
        for file in ["/no/such/place/x", "/"] {
            let ran = Program::alone().run(&[command, &[file]].concat()).await;
            ran.refused(2, "it cannot be written: ");
        }
    }
}

#[tokio::test]
async fn a_file_is_as_it_was_when_the_command_is_refused() {
    let place = place();
    let (absent, present) = (place.path().join("absent"), place.path().join("present"));
    fs::write(&present, "before").unwrap();
    for file in [&absent, &present] {
        let file = file.to_str().unwrap();
        let arguments = ["demo", "--json", file, "--users", "1", "--vouchers", "2"];
        Program::alone().run(&arguments).await.refused(2, "there must be a buyer for each");
    }
    assert!(!absent.exists());
    assert_eq!(fs::read_to_string(present).unwrap(), "before");
}
