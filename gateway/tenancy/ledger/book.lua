-- Functions that book one request in Redis. The scripts of the quota store start with this text.
-- NEW_USERS_PER_DAY and MEASURES, a format of struct, are set before it.

local function ledger_add(key, field, measures)
  local former = redis.call('HGET', key, field)
  if former then
    local sum, more = {struct.unpack(MEASURES, former)}, {struct.unpack(MEASURES, measures)}
    for i = 1, #sum - 1 do -- the last one is where unpacking ended
      sum[i] = sum[i] + more[i]
    end
    measures = struct.pack(MEASURES, unpack(sum, 1, #sum - 1))
  end
  redis.call('HSET', key, field, measures)
end

-- Notes that *part*, a day or a month, has data, and returns its key.
local function ledger_key(base, kind, part)
  redis.call('ZADD', base .. kind, 0, part)
  return base .. kind .. ':' .. part
end

-- The arguments are the fields of a `LedgerBooking`, in order. All keys that it writes start with *base*.
local function ledger_book(base, day, record, group, measures, user)
  redis.call('XADD', ledger_key(base, 'records', day), '*', 'r', record)
  ledger_add(ledger_key(base, 'sums', day), group, measures)
  if user ~= '' then
    local users = ledger_key(base, 'users', string.sub(day, 1, 7))
    local field = 'u' .. user
    if redis.call('HEXISTS', users, field) == 0 and redis.call('HINCRBY', users, 'n' .. day, 1) > NEW_USERS_PER_DAY then
      field = 'u' .. OTHER_USERS
    end
    ledger_add(users, field, measures)
  end
end
