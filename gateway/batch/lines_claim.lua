-- KEYS: lines, claims, owners, returned, results. ARGV: owner, count, now, until.
local total = tonumber(redis.call('HGET', KEYS[1], 'total'))
if not total then
    return {}
end
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
local ended = {}
for _, owner in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', ARGV[3])) do
    ended[owner] = true
    redis.call('ZREM', KEYS[3], owner)
end
if next(ended) then
    local claims = redis.call('HGETALL', KEYS[2])
    for i = 1, #claims, 2 do
        if ended[claims[i + 1]] then
            redis.call('HDEL', KEYS[2], claims[i])
            redis.call('ZADD', KEYS[4], claims[i], claims[i])
        end
    end
end
local count = tonumber(ARGV[2])
local lines = {}
local returned = redis.call('ZRANGE', KEYS[4], 0, count - 1)
for _, line in ipairs(returned) do
    redis.call('ZREM', KEYS[4], line)
    lines[#lines + 1] = tonumber(line)
end
local following = tonumber(redis.call('HGET', KEYS[1], 'next') or '0')
while #lines < count and following < total do
    lines[#lines + 1] = following
    following = following + 1
end
redis.call('HSET', KEYS[1], 'next', following)
for _, line in ipairs(lines) do
    redis.call('HSET', KEYS[2], line, ARGV[1])
end
return lines
