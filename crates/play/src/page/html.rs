//! `/lab`: two buyers on a rung, and the reader of the page is their scheduler.

use std::sync::Arc;

use axum::routing::MethodRouter;
use maud::{Markup, html};
use serde::Serialize;

use super::player::Player;
use super::rung_summary::{self, RungSummary};
use seckill::http::{Language, TextFile, Texts};
use seckill::pages::Site;
use seckill::pages::page::{HtmlPage, PageFiles};

static TEXTS: TextFile = TextFile::new(include_str!("player.toml"));

/// What the page's script is given.
#[derive(Serialize)]
struct PageData {
    #[serde(flatten)]
    texts: &'static Texts,
    rungs: Vec<RungSummary>,
}

/// The page of this site.
pub(super) fn route(site: &Arc<Site>) -> MethodRouter<Player> {
    let files = PageFiles::new(|language| {
        let data = PageData { texts: TEXTS.of(language), rungs: rung_summary::rungs(language) };
        render(site, language, &data)
    });
    files.route()
}

fn render(site: &Site, language: Language, data: &PageData) -> String {
    let page = HtmlPage {
        language,
        title: data.texts["title"],
        path: "/lab",
        styles: &["lab.css"],
        libraries: &[],
        modules: &["lab.js"],
        needs_scripts: true,
        texts: data,
        main: content(data.texts, &data.rungs),
    };
    page.render(site)
}

fn content(texts: &Texts, rungs: &[RungSummary]) -> Markup {
    html! {
        a.skip href="#controls" { (texts["skip"]) }
        div.heading {
            h1 { (texts["title"]) }
            (picker(texts, rungs))
        }
        div #player.player aria-busy="true" {
            (ladder(texts, rungs))
            div.stage {
                (goal(texts))
                div #message.message role="alert" hidden {}
                div #verdict.verdict role="status" hidden {}
                (lanes(texts))
                (controls(texts))
            }
            section #source-card.source aria-labelledby="source-title" {
                h2 #source-title { (texts["source"]) }
                (unfold("source-card", texts["code"]))
                ol #source tabindex="0" aria-labelledby="source-title" {}
            }
        }
        section #rung-said.rung-said {}
        details #explored.explored { summary {} }
        details #diff-previous.diff { summary {} }
        details #diff-next.diff { summary {} }
        p.keys { (texts["keys"]) }
        p.keys { label { input #shortcuts type="checkbox" checked; " " (texts["shortcuts"]) } }
    }
}

/// What a narrow page shows of a card at this button alone.
fn unfold(card: &str, says: &str) -> Markup {
    html! { button.unfold type="button" aria-expanded="false" aria-controls=(card) { (says) } }
}

fn picker(texts: &Texts, rungs: &[RungSummary]) -> Markup {
    html! {
        div.rung-choice {
            button #previous type="button" aria-keyshortcuts="p" aria-label=(texts["previous"])
                title=(texts["previous"]) { "←" }
            label { span.unseen { (texts["rung"]) }
                select #rung {
                    @for rung in rungs { option value=(rung.id) { (rung.title) } }
                }
            }
            button #next type="button" aria-keyshortcuts="n" aria-label=(texts["next"])
                title=(texts["next"]) { "→" }
        }
    }
}

/// The rungs by part. A script marks the one that is played, and those that the reader has broken.
fn ladder(texts: &Texts, rungs: &[RungSummary]) -> Markup {
    html! {
        nav #ladder.ladder aria-label=(texts["ladder"]) tabindex="0" {
            p #score.score {}
            @for part in rungs.chunk_by(|one, next| one.part == next.part) {
                h2 { (part[0].part) }
                ul {
                    @for rung in part {
                        li {
                            a href=(format!("/lab?rung={}", rung.id)) data-rung=(rung.id) title=(rung.title) {
                                b { (rung.label) } " "
                                span { (rung.title.split([':', '：']).nth(1).unwrap_or_default().trim()) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn goal(texts: &Texts) -> Markup {
    let choice = |name: &str, label: &str, options: [&str; 2]| {
        html! {
            label { span.unseen { (label) }
                select id=(name) {
                    @for (value, option) in (1..).zip(options) { option value=(value) { (option) } }
                }
            }
        }
    };
    html! {
        section #goal-card.goal tabindex="-1" aria-labelledby="goal-title" {
            h2 #goal-title { (texts["goal_title"]) }
            p #goal {}
            (unfold("goal-card", texts["goal_unfold"]))
            form #settings.settings {
                fieldset {
                    legend.unseen { (texts["settings"]) }
                    (choice("users", texts["users"], [texts["one_user"], texts["two_users"]]))
                    (choice("processes", texts["processes"], [texts["one_process"], texts["two_processes"]]))
                    label { (texts["stock"])
                        select #stock { @for stock in 0..=9 { option { (stock) } } }
                    }
                }
            }
            div.goals {
                button #hint type="button" {}
                button #show-me type="button" { (texts["show_me"]) }
                div #goals {}
            }
            p #nudge.nudge role="status" hidden {}
        }
    }
}

fn lanes(texts: &Texts) -> Markup {
    html! {
        div #lanes.lanes tabindex="0" role="group" aria-label=(texts["timeline"]) {
            div.heads {
                (head("A"))
                section.row aria-labelledby="state-title" {
                    h2 #state-title.unseen { (texts["state"]) }
                    dl #state.state {}
                }
                (head("B"))
                (head("C"))
            }
            div #locks.locks aria-label=(texts["locks"]) role="group" {}
            ol #timeline.timeline aria-label=(texts["timeline"]) {}
            p #last.unseen role="status" {}
        }
    }
}

fn head(name: &str) -> Markup {
    html! {
        section.buyer data-buyer=(name) aria-label=(name) {
            h3 { (name) }
            p.who {}
            p.at {}
        }
    }
}

fn controls(texts: &Texts) -> Markup {
    html! {
        div #controls.controls tabindex="-1" {
            p #todo.todo {}
            div.scrub {
                button #play type="button" disabled { (texts["play"]) }
                input #scrubber type="range" min="0" max="0" value="0" aria-label=(texts["scrubber"]) disabled;
                output #schedule.schedule {}
            }
            div.steps {
                @for (name, says) in [("A", texts["step"]), ("B", texts["step"]), ("C", texts["consumer_step"])] {
                    button.step data-step=(name) type="button" aria-keyshortcuts=(name.to_lowercase())
                        disabled { b { (name) } " " span { (says) } }
                }
                button #lease type="button" aria-keyshortcuts="l" hidden disabled { (texts["lease"]) }
                button #kill type="button" hidden aria-keyshortcuts="k" title=(texts["kill_title"]) disabled { (texts["kill"]) }
                button #pause type="button" hidden aria-keyshortcuts="z" title=(texts["stop_title"]) disabled { (texts["stop"]) }
                button #again type="button" hidden aria-keyshortcuts="s" title=(texts["again_title"]) disabled { (texts["again"]) }
                button #undo type="button" aria-keyshortcuts="u" disabled { (texts["undo"]) }
                button #redo type="button" aria-keyshortcuts="r" disabled { (texts["redo"]) }
                button #restart type="button" disabled { (texts["restart"]) }
            }
        }
    }
}
