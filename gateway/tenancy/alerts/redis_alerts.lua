-- KEYS: last number, log, receivers, sender, marks of the team and period. ARGV: what, and its arguments.
local what = ARGV[1]
local last = tonumber(redis.call('GET', KEYS[1]) or '0')

if what == 'begin' then
    for place = 2, #ARGV do
        redis.call('HSETNX', KEYS[3], ARGV[place], last)
    end
    return 1
end

if what == 'add' then -- mark, body, time in seconds until which the mark is kept, most alerts, most marks (or 0: any)
    if redis.call('SISMEMBER', KEYS[5], ARGV[2]) == 1 then
        return 'known'
    end
    local most = tonumber(ARGV[6])
    if most > 0 and redis.call('SCARD', KEYS[5]) >= most then
        return 'crowded'
    end
    redis.call('SADD', KEYS[5], ARGV[2])
    redis.call('EXPIREAT', KEYS[5], ARGV[4])
    last = redis.call('INCR', KEYS[1])
    redis.call('HSET', KEYS[2], last, ARGV[3])
    redis.call('HDEL', KEYS[2], last - tonumber(ARGV[5]))
    return 'added'
end

if what == 'waiting' then -- receiver, count, most alerts
    local got = tonumber(redis.call('HGET', KEYS[3], ARGV[2]) or tostring(last))
    local first = math.max(got, last - tonumber(ARGV[4])) + 1
    local found = {first - got - 1}
    for number = first, math.min(last, first + tonumber(ARGV[3]) - 1) do
        found[#found + 1] = number
        found[#found + 1] = redis.call('HGET', KEYS[2], number) or ''
    end
    return found
end

if what == 'delivered' then -- receiver, number
    local got = tonumber(redis.call('HGET', KEYS[3], ARGV[2]) or '0')
    redis.call('HSET', KEYS[3], ARGV[2], math.max(got, tonumber(ARGV[3])))
    return 1
end

-- claim: sender, lease in milliseconds
local sender = redis.call('GET', KEYS[4])
if sender and sender ~= ARGV[2] then
    return 0
end
redis.call('SET', KEYS[4], ARGV[2], 'PX', ARGV[3])
return 1
