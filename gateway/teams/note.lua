-- KEYS: identity, audit. ARGV: the identity that is expected ('': any, but there must be one), entry of the log, most
-- entries kept. Returns 1, or 0 and writes nothing where there is none, or another one: such a store gets no entries.
local identity = redis.call('GET', KEYS[1]) or ''
if identity == '' or (ARGV[1] ~= '' and identity ~= ARGV[1]) then
    return 0
end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'e', ARGV[2])
return 1
