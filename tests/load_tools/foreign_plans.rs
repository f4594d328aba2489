//! `loadtest/jmeter/run.sh my.jmx`: what a plan lacks is said before anything is sent, and a plan that lacks nothing
//! runs and is judged by its own assertions. JMeter's part is played by a script that writes down how it was called.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use testkit::program::Ran;

/// A directory with a plan and a JMeter.
struct Place(TempDir);

/// Writes the samples of the variable `SAMPLES` where `-l` says, and the arguments beside itself.
const JMETER: &str = r#"#!/bin/bash
printf '%s\n' "$@" >"$(dirname "$0")/called"
while [[ $# -gt 0 ]]; do [[ $1 != -l ]] || printf '%s' "$SAMPLES" >"$2"; shift; done
"#;

const HEAD: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success\n";

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.file("bin")).unwrap();
        fs::write(place.file("bin/jmeter"), JMETER).unwrap();
        fs::set_permissions(place.file("bin/jmeter"), fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a plan with these elements in its one group.
    fn plan(&self, elements: &str) -> &Self {
        let plan = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<jmeterTestPlan version=\"1.2\" properties=\"5.0\">\n\
             <hashTree>\n<TestPlan testname=\"p\" enabled=\"true\">\n</TestPlan>\n<hashTree>\n{elements}\n\
             </hashTree>\n</hashTree>\n</jmeterTestPlan>\n"
        );
        fs::write(self.file("my.jmx"), plan).unwrap();
        // Of the plan before.
        let _ = fs::remove_file(self.file("bin/called"));
        self
    }

    fn run(&self, arguments: &[&str], samples: &str) -> Ran {
        self.run_with(arguments, &[("SAMPLES", samples)])
    }

    fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("loadtest/jmeter/run.sh");
        let mut command = Command::new("bash");
        command.arg(script).args(arguments).current_dir(self.0.path());
        for name in
            ["BASE_URL", "VOUCHER", "TOKENS", "USERS", "CLICKS", "RUNG", "DIALECT", "EXPECT_ORDERS"]
        {
            command.env_remove(name);
        }
        command.env("JMETER_HOME", self.0.path()).env("JAVA_HOME", "/");
        command.envs(variables.iter().copied());
        command.output().unwrap().into()
    }

    /// What the plan lacks: the sentences, without what is the same in each. A plan that lacks nothing has run, and no
    /// request was made.
    fn lacks(&self, arguments: &[&str]) -> Vec<String> {
        let ran = self.run(&[&["my.jmx"], arguments].concat(), HEAD);
        let has_run = self.file("bin/called").exists();
        if ran.status != 2 {
            assert!(ran.status == 1 && has_run && ran.stdout.contains("samples 0"), "{ran:?}");
            return Vec::new();
        }
        assert!(!has_run && ran.stdout.is_empty(), "JMeter was started: {ran:?}");
        let begin = "jmeter: 'my.jmx' lacks the ";
        ran.stderr.lines().filter_map(|line| line.strip_prefix(begin)).map(str::to_owned).collect()
    }

    /// The variables that the plan uses and nothing seems to define. It runs all the same.
    fn undefined(&self) -> Vec<String> {
        let ran = self.run(&["my.jmx"], HEAD);
        assert!(ran.status == 1 && self.file("bin/called").exists(), "{ran:?}");
        let name = |line: &str| {
            Some(line.split_once("seems to define ${")?.1.split_once('}')?.0.to_owned())
        };
        ran.stderr.lines().map(|line| name(line).unwrap()).collect()
    }

    fn called_with(&self) -> String {
        fs::read_to_string(self.file("bin/called")).unwrap()
    }
}

fn string(name: &str, value: &str) -> String {
    format!("<stringProp name=\"{name}\">{value}</stringProp>")
}

fn element(tag: &str, enabled: bool, inner: &str) -> String {
    format!(
        "<{tag} testname=\"the {tag}\" enabled=\"{enabled}\">\n{inner}\n</{tag}>\n<hashTree/>\n"
    )
}

fn csv(file: &str, names: &str) -> String {
    let properties = [("delimiter", ","), ("filename", file), ("variableNames", names)];
    let inner: String = properties.iter().map(|(name, value)| string(name, value)).collect();
    element("CSVDataSet", true, &inner)
}

fn request(path: &str) -> String {
    element("HTTPSamplerProxy", true, &string("HTTPSampler.path", path))
}

#[test]
fn everything_that_a_plan_lacks_is_said_at_once() {
    let place = Place::new();
    let asks = request("/buy/${__P(voucher)}?a=${auth_token}&amp;b=${nobody}");
    place.plan(&format!("{}{asks}", csv("tokens.txt", "auth_token")));
    let ran = place.run(&["my.jmx"], HEAD);
    assert!(ran.status == 2 && ran.stderr.contains("define ${nobody}"), "{ran:?}");
    let lacks = place.lacks(&[]);
    assert_eq!(lacks.len(), 2, "{lacks:?}");
    for (lack, begins) in lacks
        .iter()
        .zip(["property 'voucher', which has no default", "file 'tokens.txt' of a CSV Data Set"])
    {
        assert!(lack.starts_with(begins), "{lacks:?}");
    }
}

#[test]
fn a_property_is_lacking_when_it_has_no_default_and_nobody_gives_it() {
    let place = Place::new();
    for (asks, given, lacking) in [
        ("${__P(a)}", "-Jb=1", true),
        ("${__P(a)}", "-Ja=1", false),
        ("${__P(a,)}", "-Jb=1", false),
        ("${__P(a,7)}", "-Jb=1", false),
        ("${__property(a)}", "-Jb=1", true),
        ("${__property(a,v)}", "-Jb=1", true),
        ("${__property(a,,7)}", "-Jb=1", false),
        ("${__property(a)}", "-Ja=x=y", false),
        // Those of BASE_URL.
        ("${__P(scheme)}${__P(host)}${__P(port)}", "-Jb=1", false),
        // Inside of another function.
        ("${__intSum(1,${__P(a)},sum)}", "-Jb=1", true),
        // Set by the plan itself.
        ("${__P(a)}${__setProperty(a,1)}", "-Jb=1", false),
        ("${__P(a)}${__setProperty(b,1)}", "-Jb=1", true),
        ("${__P(a)} props.put(&quot;a&quot;, token)", "-Jb=1", false),
        ("\\${__P(a)}", "-Jb=1", false),
    ] {
        let lacks = place.plan(&request(asks)).lacks(&[given]);
        assert_eq!(lacks.len(), usize::from(lacking), "{asks} {given}: {lacks:?}");
    }
}

#[test]
fn a_file_is_looked_for_beside_the_plan_and_may_be_named_by_a_property_or_a_variable() {
    let place = Place::new();
    fs::write(place.file("there.csv"), "user_id,token\n1,t\n").unwrap();
    fs::write(place.file("empty.csv"), "").unwrap();
    let variable = string("Argument.name", "file") + &string("Argument.value", "there.csv");
    let variable = element("Arguments", true, &variable);
    let absolute = place.file("there.csv").to_str().unwrap().to_owned();
    for (file, lacking) in [
        ("there.csv", None),
        (absolute.as_str(), None),
        ("${__P(f,there.csv)}", None),
        ("${file}", None),
        ("${__P(given)}", None),
        ("gone.csv", Some("gone.csv")),
        ("${__P(f,gone.csv)}", Some("gone.csv")),
        ("D:\\plans\\tokens.csv", Some("D:\\plans\\tokens.csv")),
        ("empty.csv", Some("empty.csv")),
        ("bin", Some("bin")),
        ("-", Some("-")),
    ] {
        let plan = format!("{variable}{}", csv(file, "a"));
        let lacks = place.plan(&plan).lacks(&["-Jgiven=there.csv"]);
        let expected = lacking.map(|file| format!("file '{file}'"));
        assert_eq!(lacks.len(), usize::from(lacking.is_some()), "{file}: {lacks:?}");
        assert!(expected.is_none_or(|expected| lacks[0].starts_with(&expected)), "{lacks:?}");
    }
    // A name that leads back to itself is not followed for ever, and nothing is known of it.
    for (value, given) in
        [("${file}", "-Jx=1"), ("${__P(x)}", "-Jx=${__P(x)}"), ("a${file}", "-Jx=1")]
    {
        let variable = string("Argument.name", "file") + &string("Argument.value", value);
        let plan = format!("{}{}", element("Arguments", true, &variable), csv("${file}", "a"));
        assert_eq!(place.plan(&plan).lacks(&[given]), [""; 0], "{value}");
    }
}

#[test]
fn a_variable_that_nothing_seems_to_define_is_a_warning() {
    let place = Place::new();
    fs::write(place.file("there.csv"), "user_id,token\r\n1,t\r\n").unwrap();
    let script = |text| element("JSR223PreProcessor", true, &string("script", text));
    let named = |tag, name| element(tag, true, &string(name, "x"));
    let disabled = element("RegexExtractor", false, &string("RegexExtractor.refname", "x"));
    let functions = "${__Random(1,9,x)}${__split(${__P(a,b)},x)}";
    for (defines, asks, lacking) in [
        (csv("there.csv", "x , y"), "${x}${y}", ""),
        // Its head is not read, nor what scripts and other files do.
        (csv("there.csv", ""), "${x}", ""),
        (script("vars.put(name, &quot;1&quot;)"), "${x}", ""),
        (element("JSR223Sampler", true, &string("filename", "a.groovy")), "${x}", ""),
        (element("IncludeController", true, ""), "${x}", ""),
        (script("log.info(&quot;1&quot;)"), "${x}", "x"),
        (named("Arguments", "Argument.name"), "${x}", ""),
        (
            named("RegexExtractor", "RegexExtractor.refname"),
            "${x}${x_g1}${x_1}${x_1_g1}${x_matchNr}",
            "",
        ),
        (
            element("JSONPostProcessor", true, &string("JSONPostProcessor.referenceNames", "w;x")),
            "${x}${w_ALL}",
            "",
        ),
        (named("CounterConfig", "CounterConfig.name"), "${x}", ""),
        (named("ForeachController", "ForeachController.returnVal"), "${x}", ""),
        (request(functions), "${x}${x_n}${x_#}", ""),
        (String::new(), "${__threadNum}${START.MS}${COOKIE_a}${__UUID}\\${x}", ""),
        (String::new(), "${x}", "x"),
        (disabled, "${x}", "x"),
        (named("HTTPSamplerProxy", "Argument.name"), "${x}", "x"),
    ] {
        let undefined = place.plan(&format!("{defines}{}", request(asks))).undefined();
        assert_eq!(undefined.concat(), lacking, "{defines} {asks}");
    }
    // However long it is.
    let long = format!("{}{}", "${__f(".repeat(50_000), "${x}".repeat(50_000));
    assert_eq!(place.plan(&request(&long)).undefined(), ["x"]);
    // What is switched off lacks nothing, with all that stands below it.
    let below = format!("<hashTree>\n{}{}</hashTree>\n", csv("gone.csv", "a"), request("${x}"));
    let off = "<ThreadGroup testname=\"off\" enabled=\"false\">\n</ThreadGroup>\n";
    assert_eq!(place.plan(&format!("{off}{below}{}", request("/"))).undefined(), [""; 0]);
    assert_eq!(place.plan(&format!("{off}{below}{}", request("${y}"))).undefined(), ["y"]);
    let comment = "<!-- <stringProp name=\"a\">${x}</stringProp> -->";
    assert_eq!(place.plan(comment).undefined(), [""; 0]);
}

#[test]
fn a_plan_that_lacks_nothing_runs_and_its_own_assertions_judge() {
    let place = Place::new();
    place.plan(&request("/"));
    let good = "1,5,buy,200,OK,t,true\n2,7,\"buy, again\",409,Conflict,t,true\n";
    let ran = place.run(&["my.jmx", "-Jvoucher=7", "-Jnote=a b"], &format!("{HEAD}{good}"));
    assert_eq!(ran.status, 0, "{ran:?}");
    for line in ["HOLDS", "buy, again", "409", "samples                      2"] {
        assert!(ran.stdout.contains(line), "{line}: {ran:?}");
    }
    let called = place.called_with();
    for argument in ["-Jvoucher=7", "-Jnote=a b", "-Jhost=127.0.0.1", "-Jport=8080", "-n"] {
        assert!(called.lines().any(|line| line == argument), "{argument}: {called}");
    }
    for (sample, check) in [
        ("3,5,buy,200,OK,t,false\n", "failed_samples 1"),
        (
            "3,5,buy,Non HTTP response code: java.net.ConnectException,refused,t,false\n",
            "no_answer 1",
        ),
    ] {
        let ran = place.run(&["my.jmx"], &format!("{HEAD}{good}{sample}"));
        assert_eq!(ran.status, 1, "{ran:?}");
        assert!(ran.stdout.contains("FAILED: ") && ran.stdout.contains(check), "{ran:?}");
    }
    let ran = place.run(&["my.jmx"], HEAD);
    assert!(ran.status == 1 && ran.stdout.contains("samples 0"), "{ran:?}");
}

#[test]
fn what_is_no_plan_and_what_is_no_property_is_refused() {
    let place = Place::new();
    place.plan(&request("/"));
    fs::write(place.file("text.jmx"), "hello").unwrap();
    for (arguments, words) in [
        (vec!["gone.jmx"], "there is no plan"),
        (vec!["."], "there is no plan"),
        (vec!["text.jmx"], "not a plan of JMeter's"),
        (vec!["my.jmx", "host=1"], "not a property"),
        (vec!["my.jmx", "-Jhost="], "not a property"),
        (vec!["my.jmx", "-J=1"], "not a property"),
        (vec![], "usage"),
    ] {
        let ran = place.run(&arguments, HEAD);
        assert_eq!((ran.status, ran.stderr.lines().count()), (2, 1), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(words) && !place.file("bin/called").exists(), "{ran:?}");
    }
    // It would not read them.
    for name in ["TOKENS", "USERS", "CLICKS"] {
        let ran = place.run_with(&["my.jmx"], &[(name, "7")]);
        assert!(ran.status == 2 && ran.stderr.starts_with(&format!("jmeter: {name}: ")), "{ran:?}");
    }
}
