//! What the cloud gives back, where and in which form: one server for each (operation kind, form, token), so that all run
//! at once and each operation meets its own echoes and then goes on.

use holdfast_simulated_cloud::{Cloud, ENCODINGS, Fault, Rule, Seed};

use crate::canary;

/// One machine with one operation on it.
pub struct Job {
    pub name: String,
    pub server: String,
    pub kind: &'static str,
    pub site: &'static str,
}

/// Sites whose credential is lent, by the token there.
pub const SITES: [(&str, &str); 2] = [("plain", canary::PLAIN), ("hostile", canary::HOSTILE)];

#[derive(Default)]
pub struct Plan {
    pub jobs: Vec<Job>,
    rules: Vec<Rule>,
}

impl Plan {
    /// Every form on every way, for every token.
    pub fn whole(cloud: &Cloud) -> Plan {
        let mut plan = Plan::default();
        for (site, _) in SITES {
            for form in ENCODINGS {
                plan.reads(cloud, site, form);
                plan.begins(cloud, site, form);
                plan.replaces(cloud, site, form);
            }
            for form in ["raw", "hex", "base64url-nopad"] {
                plan.resets(cloud, site, form);
            }
        }
        plan
    }

    /// Power off, whose reads come back with an echo in the declared field, and then as an error whose code, message and
    /// headers are echoes.
    pub fn reads(&mut self, cloud: &Cloud, site: &'static str, form: &str) {
        let server = self.job(cloud, site, form, "HostPowerOff", "running");
        let on = || Rule::on("GET", &format!("/v1/servers/{server}"));
        self.rules.push(on().nth(1).does(echo(form, &["/server/status"])));
        let refusal = Fault { status: Some(503), ..echo(form, &["/error/code", "/error/message"]) };
        self.rules.push(on().nth(2).does(with_headers(refusal, form, site)));
    }

    /// Power on: the effect happens, and the answer's declared identity is an echo.
    pub fn begins(&mut self, cloud: &Cloud, site: &'static str, form: &str) {
        let server = self.job(cloud, site, form, "HostPowerOn", "off");
        let on = Rule::on("POST", &format!("/v1/servers/{server}/actions/power_on")).nth(1);
        self.rules.push(on.does(with_headers(echo(form, &["/action/id"]), form, site)));
    }

    /// Replace with first-boot data: the new server's identity is an echo of credential and data. (Not its root password,
    /// too: what is captured is watched for, and a cloud that "makes up" our own request would have it withheld.)
    pub fn replaces(&mut self, cloud: &Cloud, site: &'static str, form: &str) {
        let server = self.job(cloud, site, form, "HostReplace", "running");
        let on = Rule::on("POST", &format!("/v1/servers/{server}/replace")).nth(1);
        self.rules.push(on.does(echo(form, &["/server/id"])));
    }

    /// A reset, which may never be repeated, whose answer is an echo.
    pub fn resets(&mut self, cloud: &Cloud, site: &'static str, form: &str) {
        let server = self.job(cloud, site, form, "HostReboot", "running");
        let on = Rule::on("POST", &format!("/v1/servers/{server}/actions/reset"));
        self.rules.push(on.does(echo(form, &["/action/id"])));
    }

    /// A machine without any rule.
    pub fn job(
        &mut self,
        cloud: &Cloud,
        site: &'static str,
        form: &str,
        kind: &'static str,
        status: &str,
    ) -> String {
        let name = format!("{}-{site}-{form}", kind.to_lowercase());
        let seed = Seed { status: status.to_owned(), ..Seed::named(&name) };
        let server = cloud.seed_server(seed).unwrap();
        self.jobs.push(Job { name, server: server.clone(), kind, site });
        server
    }

    /// The cloud acts by it from now on.
    pub fn lay(&self, cloud: &Cloud) {
        cloud.set_faults(self.rules.clone());
    }

    /// How many of the rules acted.
    pub fn acted(&self, cloud: &Cloud) -> usize {
        cloud.faults().iter().filter(|rule| rule.fired > 0).count()
    }

    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    /// Adds a rule of the test's own.
    pub fn rule(&mut self, rule: Rule) {
        self.rules.push(rule);
    }
}

fn echo(form: &str, places: &[&str]) -> Fault {
    Fault {
        echo: Some(form.to_owned()),
        echo_at: places.iter().map(|place| (*place).to_owned()).collect(),
        ..Fault::default()
    }
}

/// Echoes in the headers that custody reads, too.
fn with_headers(mut fault: Fault, form: &str, site: &str) -> Fault {
    let token = SITES.iter().find(|(name, _)| *name == site).map_or("", |(_, token)| token);
    let text = holdfast_simulated_cloud::encode(form, token.as_bytes()).unwrap_or_default();
    let text: String = text.chars().filter(|c| c.is_ascii_graphic()).collect();
    for name in ["Retry-After", "RateLimit-Remaining", "RateLimit-Reset", "Location", "ETag"] {
        fault.headers.insert(name.to_owned(), text.clone());
    }
    fault
}
