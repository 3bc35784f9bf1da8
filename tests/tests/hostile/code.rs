//! Modules that load and then misbehave.

use anyhow::ensure;
use holdfast_api::Phase;
use holdfast_simulated_cloud::EffectKind;

use crate::attack::said;
use crate::world::run;

/// Lines of one callback that reach the log.
const LINES: usize = 256;

#[test]
fn endless_loops_are_stopped_at_the_deadline_and_others_are_served_meanwhile_attack_79() {
    run(async |world| {
        // More of them than there are threads for guests.
        let mut spinning = Vec::new();
        for n in 0..4 {
            let name = format!("endless-loop-{n}");
            let victim = world.victim(&name).await?;
            spinning.push(world.attack("endless-loop").named(&name).launch(&victim).await?);
        }
        world.stands("endless-loops-began").await?;
        for attack in spinning {
            attack.stopped("the callback was stopped at its deadline").await?;
        }
        world.stands("endless-loops").await
    });
}

#[test]
fn a_memory_bomb_is_stopped_at_its_own_limit_attack_80() {
    run(async |world| {
        world.attack("memory-bomb").stopped("needed more than its 67108864 bytes of memory").await?;
        Ok(())
    });
}

#[test]
fn deep_recursion_is_stopped_at_the_guests_stack() {
    run(async |world| {
        // The guest's own stack in its memory ends first, or the engine's.
        let (_, status) = world.attack("deep-recursion").stopped("the module used").await?;
        let told = said(&status);
        let stack = told.contains("endless recursion") || told.contains("used up its stack");
        ensure!(stack, "the sentence says that a stack ended: {told}");
        Ok(())
    });
}

#[test]
fn a_module_that_panics_or_exits_ends_its_own_callback_only_attack_81() {
    run(async |world| {
        world.attack("panic").stopped("the module panicked; its log has what it said").await?;
        ensure!(world.house.log().contains("said by the module that panicked"), "the log has what it said");
        world.attack("exit").stopped("the module called exit instead of returning").await.map(drop)
    });
}

#[test]
fn a_loop_of_reads_does_not_use_up_the_accounts_rate_limit_attack_79() {
    run(async |world| {
        let sentence = "the callback was stopped: it made more than 256 calls";
        let (victim, status) = world.attack("read-loop").stopped(sentence).await?;
        let callbacks = status.target.map_or(1, |target| target.attempts.max(1)) as usize;
        let path = format!("/v1/servers/{}", victim.server);
        let asked = world.cloud.requests().iter().filter(|request| request.target == path).count();
        println!("the cloud was asked {asked} times in {callbacks} callbacks");
        ensure!((1..=256 * callbacks).contains(&asked), "the cloud was asked {asked} times");
        Ok(())
    });
}

#[test]
fn an_operation_has_at_most_32_effects() {
    run(async |world| {
        let sentence = "nothing was sent: an operation has at most 32 effects";
        let (victim, status) = world.attack("effect-flood").stopped(sentence).await?;
        ensure!(status.effects.len() == 32, "{} effects were recorded", status.effects.len());
        let sent = world.cloud.requests();
        let path = format!("/v1/servers/{}/actions/power_off", victim.server);
        let sent = sent.iter().filter(|request| request.target == path).count();
        ensure!(sent == 32, "each was sent once, and {sent} requests came");
        Ok(())
    });
}

#[test]
fn text_of_a_module_neither_clears_a_terminal_nor_forges_a_line() {
    run(async |world| {
        let (_, status) = world.attack("escapes").stopped("escaped-line").await?;
        let told = serde_json::to_value(&status)?;
        let odd = |text: &str| text.contains(|c: char| c.is_control() || c == '\u{202e}');
        for text in [said(&status), status.reason.as_deref().unwrap_or_default()] {
            ensure!(!odd(text), "{text:?} holds a control character: {told}");
        }
        let victim = world.victim("log-forgery").await?;
        world.attack("log-forgery").launch(&victim).await?.completes().await?;
        world.stands("log-forgery").await?;
        let log = world.house.log();
        let about: Vec<&str> = log
            .split(['\n', '\r', '\u{85}', '\u{2028}'])
            .filter(|line| line.contains("forged-line"))
            .collect();
        ensure!(about.len() == 2, "two lines are told as two lines: {about:#?}");
        for line in about {
            ensure!(
                line.contains("provider: said"),
                "a line of the log begins with the daemon's words: {line:?}"
            );
            ensure!(!odd(line), "{line:?} holds a control character");
        }
        Ok(())
    });
}

#[test]
fn a_huge_result_is_refused_before_it_is_copied_attack_80() {
    run(async |world| {
        world.attack("huge-result").stopped("a value that is malformed or far too large").await?;
        let sentence = "a provider ID of 102400 bytes; 4096 are allowed";
        let (victim, _) = world.attack("large-result").stopped(sentence).await?;
        world.untouched(&victim.server)
    });
}

#[test]
fn ten_thousand_log_lines_become_at_most_256_and_the_last_says_so_attack_80() {
    run(async |world| {
        for (attack, line) in [("log-lines", "flood-of-log-lines"), ("print-lines", "flood-of-printed-lines")]
        {
            let victim = world.victim(attack).await?;
            let status = world.attack(attack).launch(&victim).await?.completes().await?;
            world.stands(attack).await?;
            let attempts = status.target.map_or(1, |target| target.attempts.max(1)) as usize;
            let log = world.house.log();
            let (mut lines, mut bytes) = (0, 0);
            for written in log.lines().filter(|written| written.contains(line)) {
                lines += 1;
                bytes += written.len();
            }
            println!("{attack}: {lines} lines, {} KiB, in {attempts} callbacks", bytes >> 10);
            ensure!(lines >= LINES / 2, "the first lines are kept, and {lines} were");
            ensure!(lines <= LINES * attempts, "{lines} lines of 10,000 reached the log");
            // A message of 4 KiB and a field of 1 KiB at most, each.
            ensure!(bytes <= lines * (8 << 10), "{bytes} bytes of 10,000 lines reached the log");
            ensure!(log.contains("wrote more than 256 lines"), "the log says that more was dropped");
        }
        Ok(())
    });
}

#[test]
fn an_undeclared_call_ends_the_operation() {
    run(async |world| {
        let sentence =
            "call `format-the-moon` was refused: provider.toml declares no `[calls.format-the-moon]`";
        let (victim, status) = world.attack("undeclared-call").stopped(sentence).await?;
        ensure!(status.phase == Phase::Failed, "asking again would not help: {:?}", status.phase);
        world.unasked(&victim.server)
    });
}

#[test]
fn an_effect_in_the_wrong_phase_or_by_the_wrong_import_ends_the_operation() {
    run(async |world| {
        let sentence = "call `wipe` with effect `destroy` was refused in phase `act`";
        let (victim, _) = world.attack("wrong-phase").stopped(sentence).await?;
        world.unasked(&victim.server)?;
        let sentence = "call `off` has effect `update` and was made through `read`";
        let (victim, _) = world.attack("effect-by-read").stopped(sentence).await?;
        world.unasked(&victim.server)
    });
}

#[test]
fn a_handle_kept_beyond_the_call_stops_the_module_attack_85() {
    run(async |world| {
        world.attack("handle-kept").stopped("the module kept a lent handle beyond the callback").await?;
        Ok(())
    });
}

#[test]
fn the_number_of_an_earlier_or_never_lent_handle_is_worth_nothing_attack_85() {
    run(async |world| {
        let (victim, _) = world.attack("handle-never-lent").stopped("the module failed").await?;
        world.unasked(&victim.server)?;
        let noted = world.attack("handle-noted").long_running();
        let (victim, status) = noted.stopped("the module failed").await?;
        let accepted = status.target.and_then(|target| target.accepted_at);
        ensure!(accepted.is_some(), "it was the second callback that failed");
        world.unasked(&victim.server)?;
        // The control: it was the loan that was missing, not the number that was wrong.
        let victim = world.victim("handle-noted-and-lent").await?;
        let control = world.attack("handle-noted-and-lent").long_running();
        control.launch(&victim).await?.completes().await.map(drop)
    });
}

#[test]
fn nothing_that_a_callback_keeps_in_memory_is_there_in_the_next() {
    run(async |world| {
        let victim = world.victim("static-kept").await?;
        world.attack("static-kept").long_running().launch(&victim).await?.completes().await?;
        world.stands("static-kept").await
    });
}

#[test]
fn an_authenticated_call_without_the_credentials_is_not_sent_attack_87() {
    run(async |world| {
        let sentence = "its endpoint authenticates and the lent credentials were not presented";
        let (victim, _) = world.attack("without-credentials").stopped(sentence).await?;
        world.unasked(&victim.server)
    });
}

#[test]
fn an_argument_that_is_not_declared_or_does_not_fit_its_place_is_not_sent() {
    run(async |world| {
        let sentence = "`force` is not an argument that a guest gives (provider.toml, `[calls.off.args]`)";
        let (victim, _) = world.attack("undeclared-argument").stopped(sentence).await?;
        world.unasked(&victim.server)?;
        let (victim, _) = world.attack("large-arguments").stopped("65536 are allowed (attack 80)").await?;
        world.unasked(&victim.server)?;
        let sentence = "argument `id` does not name a `server` that this operation may update";
        let (victim, _) = world.attack("argument-out-of-place").stopped(sentence).await?;
        world.unasked(&victim.server)
    });
}

#[test]
fn another_machine_is_neither_updated_nor_read_h4() {
    run(async |world| {
        let neighbour = world.victim("neighbour-h4").await?;
        for (attack, verb) in [("neighbours-update", "update"), ("neighbours-read", "read")] {
            let sentence =
                format!("does not name a `server` that this operation may {verb} (rule L3, hole H4)");
            world.attack(attack).with("neighbour", &neighbour.server).stopped(&sentence).await?;
        }
        world.unasked(&neighbour.server)
    });
}

#[test]
fn a_neighbours_identity_becomes_neither_the_new_one_nor_the_one_to_clean_up_h8() {
    run(async |world| {
        let neighbour = world.victim("neighbour-h8").await?;
        for (attack, sentence) in [
            (
                "neighbours-identity",
                "its `server` is neither the machine's own nor made by an effect of this",
            ),
            ("neighbours-cleanup", "the identity to clean up is neither the machine's old one nor owned"),
        ] {
            let attack = world.attack(attack).with("neighbour", &neighbour.server);
            let (victim, _) = attack.stopped(sentence).await?;
            let api: kube::Api<holdfast_api::Machine> = kube::Api::all(world.client()?);
            let id = api.get(&victim.machine).await?.spec.host.external.provider_id;
            ensure!(id == Some(format!("hostile://{}", victim.server)), "the machine is now {id:?}");
        }
        world.unasked(&neighbour.server)
    });
}

#[test]
fn a_sealed_value_serves_the_operation_that_it_was_sealed_for_and_no_other_l8() {
    run(async |world| {
        let victim = world.victim("sealed").await?;
        let stash = world.attack("sealed-stash").long_running().launch(&victim).await?.completes().await?;
        let handle = stash.target.and_then(|target| target.provider_operation);
        let sealed = handle.map(|handle| handle.resume_token).unwrap_or_default();
        ensure!(sealed.starts_with("hs1."), "the guest was given a sealed value: {sealed}");
        let mut turned = sealed.clone().into_bytes();
        turned[10] = if turned[10] == b'A' { b'B' } else { b'A' };
        let turned = String::from_utf8(turned)?;
        let sentence =
            "argument `etag` is not a value that this operation's own call sealed for it (rule L8)";
        for (name, value) in [
            ("sealed-of-another-operation", sealed.as_str()),
            ("sealed-and-changed", turned.as_str()),
            ("sealed-made-up", "hs1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
            ("sealed-in-clear", "etag-1"),
        ] {
            let attack = world.attack("sealed-given").named(name).with("sealed", value);
            attack.launch(&victim).await?.stopped(sentence).await?;
        }
        world.untouched(&victim.server)?;
        world.stands("sealed-given").await?;
        // The control: with its own value the same call goes out.
        world.attack("sealed-own").launch(&victim).await?.completes().await?;
        let done = world.cloud.ledger().count(EffectKind::PowerOff, &victim.server);
        ensure!(done == 1, "the call with its own sealed value took effect {done} times");
        Ok(())
    });
}

#[test]
fn a_value_that_no_call_of_this_operation_returned_is_refused() {
    run(async |world| {
        let sentence = "must be a value that `off` returned as `action` to this operation";
        world.attack("made-up-origin").stopped(sentence).await?;
        Ok(())
    });
}

#[test]
fn a_2xx_that_does_not_fit_is_in_doubt_whatever_the_module_says_h5() {
    run(async |world| {
        for (attack, sentence) in [
            ("unfit-and-wait", "what became of the effect only can't be found out"),
            ("unfit-and-success", "success was refused: effect `only` (call `unfit`) is in doubt"),
        ] {
            let (victim, status) = world.attack(attack).stopped(sentence).await?;
            ensure!(status.phase == Phase::OutcomeUnknown, "{attack} waits for a person: {:?}", status.phase);
            let done = world.cloud.ledger().count(EffectKind::Reset, &victim.server);
            ensure!(done == 1, "{attack}: sent once and never again, and it took effect {done} times");
        }
        Ok(())
    });
}
