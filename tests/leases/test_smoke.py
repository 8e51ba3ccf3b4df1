from django_delayed_tasks.leases import Pool, mutex, LeaseLost, ResourceUnavailable
import pytest
def test_it(live_db):
    with mutex("a", ttl=5) as lease:
        lease.check()
        t = lease.token
        lease.state["x"] = 1
        with pytest.raises(ResourceUnavailable):
            with mutex("a"): pass
    with mutex("a") as lease:
        assert lease.token == t + 1
        assert lease.state == {"x": 1}
    p = Pool("proxies")
    for i in range(3): p.add(str(i), {"i": i})
    with p.lease(wait=0) as a, p.lease(wait=0) as b, p.lease(wait=0) as c:
        assert [a.name, b.name, c.name] == ["0", "1", "2"]
        assert b.payload == {"i": 1}
        with pytest.raises(ResourceUnavailable):
            with p.lease(wait=0.3): pass
        p.add("4")
        b.replace()
        assert b.name == "4"
