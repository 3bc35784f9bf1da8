//! A capacity provider that uses every kind of argument and field once: `cargo build --example wide --target
//! wasm32-wasip2`. Its tests run natively.

use holdfast_guest_sdk::prelude::*;

provider!("examples/wide/provider.toml", Wide, capacity);

pub struct Wide;

impl Operations for Wide {
    fn execute(
        request: OperationRequest,
        credentials: Option<Credentials<'_>>,
        _: Option<UserData<'_>>,
    ) -> Result<OperationResult, Error> {
        let credentials = credentials.required()?;
        let chassis = calls::target_chassis(&request.machine).unwrap_or_default();
        let server = calls::ProviderId::of(&request.machine)?.server;
        let found = calls::server(credentials, &server)?;
        info!("server is {}", found.state; on = found.on, chassis = chassis, tags = found.tags.unwrap_or_default().len());
        calls::reboot("reboot", credentials, &found.control)?.done()?;
        Ok(OperationResult::unchanged())
    }
}

impl Capacity for Wide {
    fn resolve_class(request: ClassRequest, _: Option<Credentials<'_>>) -> Result<Vec<Offering>, Error> {
        let prices = calls::prices()?;
        let mut offerings = Vec::new();
        for offer in prices.offers {
            for zone in offer.zones {
                offerings.push(Offering {
                    name: format!("{}-{}-{zone}", request.class_name, offer.r#type),
                    instance_type: offer.r#type.clone(),
                    zone: Some(zone),
                    resources: vec![("memory".to_owned(), offer.size.to_string())],
                    available: true,
                    valid_until: now(),
                    attributes: Vec::new(),
                });
            }
        }
        Ok(offerings)
    }

    fn plan_allocation(request: PlanRequest) -> Result<Plan, Error> {
        let zone = request.offering.zone.unwrap_or_default();
        let id = calls::ProviderId { zone, server: request.allocation_uid };
        Ok(Plan { provider_id: id.text(), host_image: "debian-13".to_owned() })
    }

    fn begin_allocate(
        _: OperationRequest,
        _: Allocation,
        _: ProviderConfig,
        credentials: Option<Credentials<'_>>,
        user_data: UserData<'_>,
    ) -> Result<BeginResult, Error> {
        let boot = Some(calls::CreateBoot::Uefi);
        let made = calls::create("create", credentials.required()?, user_data, 4, boot, None)?.done()?;
        BeginResult::accepted(made.id.clone(), &made.id)
    }

    fn poll_allocate(
        _: OperationRequest,
        allocation: Allocation,
        operation: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<AllocatePollResult, Error> {
        let id: String = ResumeToken::decode(&operation.resume_token)?;
        let found = calls::find(credentials.required()?, "create")?;
        let owned = vec![OwnedResource::new("server", &id)];
        if !found.servers.iter().any(|server| server.id == id) {
            return Ok(AllocatePollResult::in_progress(owned, "the server is not listed yet"));
        }
        let result = AllocationResult {
            provider_resource_id: id,
            provider_id: None,
            instance_type: allocation.offering.instance_type,
            zone: allocation.offering.zone,
            image: Some(allocation.host_image),
        };
        Ok(AllocatePollResult::succeeded(result, owned))
    }

    fn begin_release(
        _: OperationRequest,
        _: Allocation,
        owned: Vec<OwnedResource>,
        credentials: Option<Credentials<'_>>,
    ) -> Result<BeginResult, Error> {
        let ids: Vec<String> = owned.into_iter().map(|resource| resource.id).collect();
        calls::delete("delete", credentials.required()?, ids)?.done()?;
        BeginResult::accepted("release", &())
    }

    fn poll_release(
        _: OperationRequest,
        _: Allocation,
        owned: Vec<OwnedResource>,
        _: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<ReleasePollResult, Error> {
        let credentials = credentials.required()?;
        let mut remaining = Vec::new();
        for resource in owned {
            match calls::server(credentials, &resource.id) {
                Ok(_) => remaining.push(resource),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(if remaining.is_empty() {
            ReleasePollResult::succeeded()
        } else {
            ReleasePollResult::in_progress(remaining, "servers are still there")
        })
    }
}

/// The id of the server that this allocation made, if it is made.
#[cfg_attr(not(test), allow(dead_code))]
pub fn recorded() -> Option<String> {
    holdfast_guest_sdk::recorded::<calls::Create>("create").ok().flatten().map(|made| made.id)
}
