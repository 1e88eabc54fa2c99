-- KEYS: revision, teams, keys, audit, identity, workers, routes, access records. ARGV: required revision, new revision,
-- entry of the log, number of entries to keep, channel, expected identity ('': any); then for each row: 2, 3, 6, 7 or 8
-- (which of KEYS), name, row; an empty row is deleted.
-- Returns 1. Returns 0 and writes nothing if the revision or the identity differs.
if ARGV[6] ~= '' and (redis.call('GET', KEYS[5]) or '') ~= ARGV[6] then
    return 0
end
local revision = redis.call('GET', KEYS[1]) or '0'
if revision ~= ARGV[1] then
    return 0
end
for at = 7, #ARGV, 3 do
    local key, name, row = KEYS[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2]
    if row == '' then
        redis.call('HDEL', key, name)
    else
        redis.call('HSET', key, name, row)
    end
end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[4], '*', 'e', ARGV[3])
redis.call('PUBLISH', ARGV[5], '')
return 1
