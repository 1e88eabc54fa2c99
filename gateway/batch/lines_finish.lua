-- KEYS: lines, claims, owners, returned, results. ARGV: line, result, field of the count, and the arguments of
-- `ledger_book` if the line has a ledger entry. gateway/tenancy/ledger/book.lua comes before this text.
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], 'closed') == 1 then
    return 0
end
if redis.call('HSETNX', KEYS[5], ARGV[1], ARGV[2]) == 0 then
    return 0
end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('HINCRBY', KEYS[1], ARGV[3], 1)
if ARGV[4] then
    ledger_book(unpack(ARGV, 4))
    ledger_write()
end
return 1
