//! The load tests for k6 and JMeter name only codes that the API has, and read the variables that their page
//! names. That they run, pass and fail as they should is `make loadtest`'s to show.

use std::collections::BTreeSet;

use seckill::http::problem::Code;
use testkit::markdown::MarkdownPage;

fn read(file: &str) -> String {
    crate::docs::read(&format!("loadtest/{file}"))
}

fn codes_of_the_api() -> BTreeSet<String> {
    Code::ALL.iter().map(|code| code.as_str().to_owned()).collect()
}

/// What stands between `begin` and `end` wherever they occur.
fn between<'a>(text: &'a str, begin: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(begin).skip(1).filter_map(move |rest| Some(rest.split_once(end)?.0))
}

/// The words in single quotation marks in a list such as `CODES = ['a', 'b'];`.
fn list(text: &str, name: &str) -> BTreeSet<String> {
    let begin = format!("{name} = [");
    let found = between(text, &begin, "];").next().unwrap_or_default();
    found.split('\'').skip(1).step_by(2).map(str::to_owned).collect()
}

const K6: [&str; 4] = ["rush", "double_click", "capacity", "lab"];
const JMETER: [&str; 2] = ["rush", "double_click"];

#[test]
fn k6_knows_only_codes_that_there_are() {
    let known = list(&read("k6/seckill.js"), "export const CODES");
    assert!(known.contains("ordered") && known.contains("internal_error"), "{known:?}");
    let mut answers = codes_of_the_api();
    answers.insert("ordered".to_owned());
    assert_eq!(known.difference(&answers).next(), None, "a code that the API does not have");
    for script in K6 {
        let expected = list(&read(&format!("k6/{script}.js")), "const EXPECTED");
        assert!(expected.contains("ordered"), "{script}: {expected:?}");
        assert_eq!(expected.difference(&known).next(), None, "{script}: nobody counts that code");
    }
}

#[test]
fn jmeter_knows_only_codes_that_there_are() {
    let answers = codes_of_the_api();
    for plan in JMETER {
        let text = read(&format!("jmeter/{plan}.jmx"));
        let alternatives: Vec<&str> = between(&text, "\"code\":\"(", ")\"").collect();
        // The assertion names them; the extractor takes any, of both dialects.
        assert_eq!(alternatives.len(), 1, "{plan}: {alternatives:?}");
        for code in alternatives[0].split('|') {
            assert!(answers.contains(code), "{plan}: the API has no code {code}");
        }
        assert!(text.contains("\"(?:code|errorMsg)\":\"([^\"]+)\"<"), "{plan}");
        // The format that JMeter 2.13 reads, too.
        assert!(text.contains("<jmeterTestPlan version=\"1.2\" properties=\"2.8\">"), "{plan}");
    }
}

#[test]
fn every_variable_that_the_page_names_is_read() {
    let scripts = K6.iter().map(|script| read(&format!("k6/{script}.js")));
    let shared = ["k6/seckill.js", "k6/report.js", "jmeter/run.sh", "prove.sh"].map(read);
    let sources: String = scripts.chain(shared).collect();
    for name in MarkdownPage::of(&read("README.md")).quoted {
        let variable = name.len() > 2 && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let ours = variable && !["PATH", "DATABASE_URL", "SECKILL_SECRET"].contains(&name.as_str());
        assert!(!ours || sources.contains(&name), "nothing reads {name}");
    }
}
