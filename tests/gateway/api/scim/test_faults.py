from gateway.api.scim.faults import ScimFault


def test_a_fault_has_the_shape_of_scim() -> None:
    schema = "urn:ietf:params:scim:api:messages:2.0:Error"

    assert {"schemas": [schema], "status": "404", "detail": "No."} == ScimFault(404, "No.").body()
    assert {"schemas": [schema], "status": "409", "scimType": "uniqueness", "detail": "Taken."} == (
        ScimFault(409, "Taken.", "uniqueness").body()
    )
