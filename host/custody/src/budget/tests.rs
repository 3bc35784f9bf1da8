//! Budgets in virtual time.

use super::*;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use tokio::time::{advance, sleep};

const SECOND: Duration = Duration::from_secs(1);
const FINE: (Load, Option<Remaining>) = (Load::Fine, None);
const OVERLOADED: (Load, Option<Remaining>) = (Load::Overloaded, None);

fn key(origin: &str, account: &str) -> BudgetKey {
    BudgetKey { origin: origin.into(), account: account.into() }
}

fn one() -> BudgetKey {
    key("https://api.example", "uid-1")
}

fn throttled(wait: u64) -> (Load, Option<Remaining>) {
    (Load::Throttled(Some(Duration::from_secs(wait))), None)
}

fn left(requests: u64, reset: u64) -> (Load, Option<Remaining>) {
    (Load::Fine, Some(Remaining { requests, reset: Duration::from_secs(reset) }))
}

impl Budgets {
    async fn go(&self, key: BudgetKey, lane: Lane) -> Result<Turn, Held> {
        self.enter(key, "cloud-account", lane, Instant::now() + 60 * SECOND).await
    }

    async fn read(&self) -> Result<Turn, Held> {
        self.go(one(), Lane::Read).await
    }

    async fn change(&self) -> Result<Turn, Held> {
        self.go(one(), Lane::Change).await
    }

    /// One request that is answered so.
    async fn answered(&self, answer: (Load, Option<Remaining>)) {
        self.change().await.unwrap().heard(answer);
    }

    fn view(&self) -> BudgetView {
        self.views().remove(0)
    }

    /// Cuts the window until one request may be in flight.
    async fn narrow(&self) {
        while self.view().limit > 1 {
            self.answered(OVERLOADED).await;
        }
    }
}

/// Does it wait for its turn (true), or has it been let in or turned away?
async fn waits<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    tokio::time::timeout(Duration::from_millis(1), future).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn a_limit_belongs_to_one_account_at_one_origin_g02() {
    let budgets = Budgets::default();
    budgets.answered(throttled(60)).await;
    assert!(budgets.read().await.is_err() && budgets.change().await.is_err());
    for other in [key("https://api.example", "uid-2"), key("https://eu.api.example", "uid-1")] {
        assert!(budgets.go(other, Lane::Read).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_while_a_service_wants_nothing_and_those_who_ask_do_not_prolong_it_g08() {
    let budgets = Budgets::default();
    budgets.answered(throttled(30)).await;
    for gone in 0..27 {
        let held = budgets.change().await.err().unwrap();
        assert_eq!(
            held.wait,
            Duration::from_secs(30 - gone),
            "turned away at once, with the time to come again"
        );
        advance(SECOND).await;
    }
    advance(2 * SECOND).await;
    assert!(budgets.change().await.is_ok(), "the last second is waited for");
    assert_eq!((budgets.view().sent, budgets.view().refused), (2, 27));
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_any_backoff_of_ours_is_honoured_g09() {
    let budgets = Budgets::default();
    budgets.answered(throttled(3500)).await;
    advance(Duration::from_secs(3490)).await;
    assert!(budgets.change().await.is_err());
    advance(Duration::from_secs(10)).await;
    assert!(budgets.change().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn in_a_wait_of_a_day_one_request_an_hour_asks_whether_it_still_holds_attack_a13() {
    let budgets = Budgets::default();
    budgets.answered(throttled(86_400)).await;
    for hour in 1..=3 {
        advance(Duration::from_secs(3590)).await;
        let held = budgets.change().await.err().expect("an hour is honoured whole");
        assert_eq!(held.wait, Duration::from_secs(10), "and the next question is no further off");
        advance(Duration::from_secs(10)).await;
        let probe = budgets.change().await.expect("one asks");
        assert!(budgets.read().await.is_err() && budgets.change().await.is_err(), "and no other beside it");
        probe.heard(throttled(86_400));
        assert!(budgets.read().await.is_err(), "the service says so again");
        assert_eq!(budgets.view().sent, 1 + hour);
    }
    advance(Duration::from_secs(3600)).await;
    let probe = budgets.change().await.expect("one asks");
    drop(probe);
    assert!(budgets.read().await.is_err(), "an answer that did not come says nothing");
    advance(Duration::from_secs(3600)).await;
    budgets.answered(FINE).await;
    assert!(budgets.read().await.is_ok(), "it takes requests: the wait is over for all");
    assert_eq!(budgets.view().throttled_until, None);
}

#[tokio::test(start_paused = true)]
async fn a_declared_rate_that_is_spent_for_a_day_is_asked_about_every_hour_attack_a13() {
    let budgets = Budgets::default();
    budgets.answered(left(0, 86_400)).await;
    assert!(budgets.change().await.is_err());
    advance(Duration::from_secs(3600)).await;
    budgets.answered(left(0, 82_800)).await;
    assert!(budgets.change().await.is_err(), "nothing is left, as it says itself");
    advance(Duration::from_secs(3600)).await;
    budgets.answered(left(100, 3600)).await;
    assert!(budgets.change().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_past_already_is_none_g09() {
    let budgets = Budgets::default();
    budgets.answered(throttled(0)).await;
    assert!(budgets.change().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_names_no_wait_is_left_alone_for_longer_each_time_g08() {
    let budgets = Budgets::default();
    let mut waits = Vec::new();
    for _ in 0..8 {
        budgets.answered((Load::Throttled(None), None)).await;
        let until = lock(&budgets.account(one(), "")).throttled_until(Instant::now()).unwrap();
        waits.push((until - Instant::now()).as_secs());
        tokio::time::sleep_until(until).await;
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    budgets.answered(FINE).await;
    budgets.answered((Load::Throttled(None), None)).await;
    let until = lock(&budgets.account(one(), "")).throttled_until(Instant::now()).unwrap();
    assert_eq!(until - Instant::now(), SECOND, "a fine answer ends the row");
}

#[tokio::test(start_paused = true)]
async fn what_is_shown_of_a_limit_clears_when_it_is_over_g03() {
    let budgets = Budgets::default();
    budgets.answered(throttled(30)).await;
    let shown = budgets.view().throttled_until.unwrap();
    let wait = shown.as_second() - Timestamp::now().as_second();
    assert!((29..=31).contains(&wait), "{wait}");
    advance(30 * SECOND).await;
    assert_eq!(budgets.view().throttled_until, None);
    assert_eq!(budgets.view().throttled, 1);
}

#[tokio::test(start_paused = true)]
async fn reads_leave_a_tenth_of_a_declared_rate_for_changes_g01() {
    let budgets = Budgets::default();
    budgets.answered(left(100, 3600)).await;
    budgets.answered(left(10, 600)).await;
    assert_eq!(budgets.read().await.err().unwrap().wait, 600 * SECOND);
    budgets.answered(left(10, 600)).await;
    budgets.answered(left(0, 40)).await;
    assert_eq!(budgets.change().await.err().unwrap().wait, 40 * SECOND, "nothing is left for anybody");
    assert_eq!(budgets.view().remaining, Some(0));
    advance(40 * SECOND).await;
    assert!(budgets.read().await.is_ok(), "the rate is whole again");
    assert_eq!(budgets.view().remaining, None, "until an answer tells more");
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_declared_rate_is_spread_over_the_time_to_its_reset_g01() {
    let budgets = Budgets::default();
    budgets.answered(left(1000, 3600)).await;
    for _ in 0..100 {
        budgets.read().await.unwrap().heard((Load::Fine, None));
    }
    // Below half, reads go by the clock: 300 of them (400 less a tenth) over 300 seconds.
    budgets.answered(left(401, 300)).await;
    let began = Instant::now();
    for _ in 0..10 {
        budgets.read().await.unwrap().heard((Load::Fine, None));
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(8_900) && took <= Duration::from_millis(9_400), "{took:?}");
    let began = Instant::now();
    for _ in 0..10 {
        budgets.change().await.unwrap().heard((Load::Fine, None));
    }
    assert_eq!(began.elapsed(), Duration::ZERO, "changes need not save yet");
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_is_whole_again_before_its_time_is_not_waited_for_g04() {
    let budgets = Budgets::default();
    budgets.answered(left(1000, 3600)).await;
    budgets.answered(left(20, 3600)).await;
    let turn = budgets.change().await.unwrap();
    assert!(budgets.change().await.is_err(), "the last of it is spread over the hour");
    turn.heard(left(1000, 3600));
    assert!(budgets.change().await.is_ok() && budgets.read().await.is_ok());
}

/// Other tools use the same project: what is left shrinks faster than we spend.
#[tokio::test(start_paused = true)]
async fn a_rate_that_others_eat_too_is_corrected_by_each_answer_g04() {
    let budgets = Budgets::default();
    budgets.answered(left(3600, 3600)).await;
    for eaten in [2000, 900, 400] {
        budgets.answered(left(eaten, 3000)).await;
        assert_eq!(budgets.view().remaining, Some(eaten));
    }
    assert!(budgets.read().await.is_ok());
    budgets.answered(left(300, 3000)).await;
    assert!(budgets.read().await.is_err(), "reads stop at a tenth of what there was");
    assert!(budgets.change().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn those_on_their_way_are_counted_before_the_service_counts_them_g01() {
    let budgets = Budgets::default();
    let (first, _second, _third) =
        (budgets.read().await.unwrap(), budgets.read().await.unwrap(), budgets.read().await.unwrap());
    first.heard(left(50, 60));
    assert_eq!(budgets.view().remaining, Some(48));
}

/// A service that bears 40 requests at once and refuses more: a fixed knob above that would be worse than one below.
#[tokio::test(start_paused = true)]
async fn the_window_finds_what_a_service_bears_g12() {
    const BEARS: u32 = 40;
    let budgets = Arc::new(Budgets::default());
    let (served, busy) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU32::new(0)));
    for _ in 0..200 {
        let (budgets, served, busy) = (budgets.clone(), served.clone(), busy.clone());
        tokio::spawn(async move {
            loop {
                let Ok(turn) = budgets.read().await else {
                    sleep(SECOND).await;
                    continue;
                };
                let fits = busy.fetch_add(1, Ordering::SeqCst) < BEARS;
                sleep(Duration::from_millis(100)).await;
                busy.fetch_sub(1, Ordering::SeqCst);
                served.fetch_add(usize::from(fits), Ordering::SeqCst);
                turn.heard(if fits { FINE } else { OVERLOADED });
            }
        });
    }
    sleep(10 * SECOND).await;
    let before = served.load(Ordering::SeqCst);
    let mut widest = 0;
    for _ in 0..600 {
        sleep(Duration::from_millis(100)).await;
        let limit = budgets.view().limit;
        widest = widest.max(limit);
        assert!(limit >= BEARS / 4, "{limit}");
    }
    assert!(widest <= BEARS + 5, "{widest}");
    // 400 a second would be all.
    let per_second = (served.load(Ordering::SeqCst) - before) / 60;
    assert!(per_second >= 240, "{per_second}");
}

#[tokio::test(start_paused = true)]
async fn a_window_is_halved_once_for_all_that_were_under_way_together_and_never_closes_g12() {
    let budgets = Budgets::default();
    let mut under_way = Vec::new();
    for _ in 0..8 {
        under_way.push(budgets.read().await.unwrap());
    }
    under_way.into_iter().for_each(|turn| turn.heard(OVERLOADED));
    assert_eq!(budgets.view().limit, 8);
    for _ in 0..20 {
        budgets.answered(OVERLOADED).await;
    }
    assert_eq!(budgets.view().limit, 1);
    assert!(budgets.read().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_window_that_is_not_used_does_not_grow_g12() {
    let budgets = Budgets::default();
    let limit = {
        budgets.answered(FINE).await;
        budgets.view().limit
    };
    for _ in 0..1000 {
        budgets.answered(FINE).await;
    }
    assert_eq!(budgets.view().limit, limit);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_came_is_overload_and_a_caller_who_went_away_is_nothing_g12() {
    let budgets = Budgets::default();
    let turn = budgets.read().await.unwrap();
    drop(turn);
    assert_eq!((budgets.view().limit, budgets.view().in_flight), (16, 0));
    let turn = budgets.read().await.unwrap();
    advance(60 * SECOND).await;
    drop(turn);
    assert_eq!((budgets.view().limit, budgets.view().overloaded), (8, 1));
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_go_in_the_order_in_which_they_came() {
    let budgets = Arc::new(Budgets::default());
    budgets.answered(FINE).await;
    budgets.narrow().await;
    let first = budgets.read().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..20 {
        let (budgets, order) = (budgets.clone(), order.clone());
        tasks.push(tokio::spawn(async move {
            let turn = budgets.read().await.unwrap();
            order.lock().unwrap().push(number);
            turn.heard((Load::Unknown, None));
        }));
        tokio::task::yield_now().await;
    }
    assert_eq!(budgets.view().waiting, 20);
    first.heard((Load::Unknown, None));
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    assert_eq!(budgets.view().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn changes_and_reads_take_turns_so_that_neither_starves_behind_the_noise_of_the_other() {
    for (noise, one) in [(Lane::Read, Lane::Change), (Lane::Change, Lane::Read)] {
        let budgets = Arc::new(Budgets::default());
        budgets.answered(FINE).await;
        budgets.narrow().await;
        let running = budgets.read().await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for lane in std::iter::repeat_n(noise, 50).chain([one]) {
            let (budgets, order) = (budgets.clone(), order.clone());
            tasks.push(tokio::spawn(async move {
                let turn = budgets.go(super::tests::one(), lane).await.unwrap();
                order.lock().unwrap().push(lane);
                turn.heard((Load::Unknown, None));
            }));
            tokio::task::yield_now().await;
        }
        running.heard((Load::Unknown, None));
        for task in tasks {
            task.await.unwrap();
        }
        let place = order.lock().unwrap().iter().position(|lane| *lane == one).unwrap();
        assert!(place <= 1, "{one:?} came last and goes {place} places behind the first");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_is_bounded_by_two_seconds_and_by_the_deadline() {
    let budgets = Budgets::default();
    budgets.answered(FINE).await;
    budgets.narrow().await;
    let _running = budgets.read().await.unwrap();
    for (deadline, bound) in [(60_000, 2_000), (1_000, 750), (0, 0)] {
        let began = Instant::now();
        let deadline = began + Duration::from_millis(deadline);
        let held = budgets.enter(one(), "", Lane::Change, deadline).await.err().unwrap();
        assert_eq!(began.elapsed().as_millis(), bound);
        assert!(held.wait >= SECOND);
    }
    assert_eq!(budgets.view().waiting, 0, "nobody is left in the queue");
    assert_eq!(budgets.view().refused, 3);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_waiting_leaves_the_queue_to_the_next() {
    let budgets = Budgets::default();
    budgets.answered(FINE).await;
    budgets.narrow().await;
    let running = budgets.read().await.unwrap();
    {
        let mut first = std::pin::pin!(budgets.read());
        assert!(waits(first.as_mut()).await);
    }
    let mut second = std::pin::pin!(budgets.read());
    assert!(waits(second.as_mut()).await);
    running.heard(FINE);
    assert!(second.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_logout_waits_for_nobody() {
    let budgets = Budgets::default();
    budgets.answered(throttled(60)).await;
    budgets.pass(one(), "", Instant::now() + SECOND).heard(FINE);
    assert_eq!(budgets.view().sent, 2);
}

#[test]
fn a_refusal_says_the_same_words_each_time_h04() {
    for hold in [Hold::Full, Hold::Until(Instant::now())] {
        let refusal = |seconds| Held { hold, wait: Duration::from_secs(seconds) }.refusal("server");
        let (one, other) = (refusal(3), refusal(77));
        assert_eq!((one.code.as_str(), &one.message), ("throttled", &other.message));
        assert_eq!((one.retry_after_ms, other.retry_after_ms), (Some(3_000), Some(77_000)));
    }
}

#[tokio::test(start_paused = true)]
async fn accounts_of_long_ago_are_forgotten_and_what_a_service_asked_for_is_not() {
    let budgets = Budgets::default();
    budgets.answered(throttled(86_400)).await;
    for number in 0..2 * MANY {
        drop(budgets.go(key("https://bmc.example", &number.to_string()), Lane::Read).await);
        advance(IDLE / MANY as u32).await;
    }
    let all = budgets.views();
    assert!(all.len() <= MANY + 2, "{}", all.len());
    assert!(all.iter().any(|view| view.throttled_until.is_some()));
}
