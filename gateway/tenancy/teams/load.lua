-- KEYS: revision, teams, keys, identity, workers, routes, access records. ARGV: known revision, expected identity ('': any).
-- Returns the revision, and if it differs all teams, keys, workers, routes and access records, each as a list of name, row, name, row, in
-- MessagePack: one long text is read many times faster than twenty thousand short ones. If the identity is not the
-- expected one, returns '!' and the identity, '' for none.
local identity = redis.call('GET', KEYS[4]) or ''
if ARGV[2] ~= '' and identity ~= ARGV[2] then
    return {'!', identity}
end
local revision = redis.call('GET', KEYS[1]) or '0'
if revision == ARGV[1] then
    return {revision}
end
return {revision, cmsgpack.pack(redis.call('HGETALL', KEYS[2])), cmsgpack.pack(redis.call('HGETALL', KEYS[3])),
    cmsgpack.pack(redis.call('HGETALL', KEYS[5])), cmsgpack.pack(redis.call('HGETALL', KEYS[6])),
    cmsgpack.pack(redis.call('HGETALL', KEYS[7]))}
