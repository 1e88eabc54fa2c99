-- KEYS: identity, audit. ARGV: expected identity ('': any, but there must be one), entry of the log, number of entries
-- to keep. Returns 1. Returns 0 and writes nothing if the identity is missing or differs.
local identity = redis.call('GET', KEYS[1]) or ''
if identity == '' or (ARGV[1] ~= '' and identity ~= ARGV[1]) then
    return 0
end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'e', ARGV[2])
return 1
