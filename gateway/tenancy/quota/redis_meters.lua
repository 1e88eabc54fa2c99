-- Limits counted in Redis, with the arithmetic of meter.py: tests/contracts/test_quota_cases.py checks both.
-- gateway/tenancy/ledger/book.lua comes before this text.
--
-- KEYS, all with the hash tag of the team:
--   meters  hash: id of a limit -> 'r' and when the bucket is full (seconds since 1970)
--                                  'p' and units used, when the period ends, its name
--                                  'c' and the number of running requests
--                 '.tended' -> time of the last call; '.grace' -> time before which no lease ends
--                 '.cursor' -> where the next search for limits that are not in use begins
--   held    hash: id of a reservation -> msgpack of {charges, booking}: reserved, and booked if it is lost
--   ends    sorted set: id of a reservation -> end of its lease
--   ended   sorted set: id of a reservation that was lost, or settled without being held -> end of this note
--   writer  number of the last operation of one gateway
-- ARGV: name of a function at the end; msgpack of {now (0: ask Redis), lease_s, limits that a team may have
-- in use}; its arguments.
-- A charge is {id, kind ('r', 'p', 'c'), amount, burst, units, period, period_left_s, units if it is lost}.

local METERS, HELD, ENDS, ENDED, WRITER = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ID, KIND, AMOUNT, BURST, UNITS, PERIOD, LEFT_S, LIKELY = 1, 2, 3, 4, 5, 6, 7, 8
local SLACK_S, SLACK_UNITS, SKEW_S, CONCURRENT_WAIT_S = 1e-6, 1e-9, 60, 1 -- the same as in meter.py and meters.py
local KEPT_S = 35 * 86400 -- keys that are not touched: longer than any month
local ENDED_KEPT_S = 3600 -- longer than a command can be in flight
local WRITER_KEPT_S = 7 * 86400
local REAPED = 20 -- in one call, so that no request waits long for a gateway that died
local SWEPT = 32
local SWEPT_IN_CROWD = 128 -- at each request that a crowd of end users and sessions refuses
local IDLE_S = 3600

local now, lease_s, max_limits = unpack(cmsgpack.unpack(ARGV[2]))
if now == 0 then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1000000
end

local function exact(number)
  return string.format('%.17g', number)
end

-- ---- meters: each call reads a meter once and writes it once

local meters, changed = {}, {}
local added = 0 -- number of limits of end users and sessions that this call adds
local touched = {} -- keys whose time to live begins anew at the end of the call

local function load(charges)
  local ids = {}
  for _, charge in ipairs(charges) do
    if not meters[charge[ID]] then
      ids[#ids + 1] = charge[ID]
    end
  end
  if #ids == 0 then
    return
  end
  local texts = redis.call('HMGET', METERS, unpack(ids))
  for i, id in ipairs(ids) do
    local text = texts[i] or ''
    local kind, rest = string.sub(text, 1, 1), string.sub(text, 2)
    local meter = {value = 0, ends = 0, period = '', is_new = kind == ''}
    if kind == 'p' then
      local value, ends, period = string.match(rest, '^(%S+) (%S+) (.*)$')
      meter = {value = tonumber(value), ends = tonumber(ends), period = period, is_new = false}
    elseif kind ~= '' then
      meter.value = tonumber(rest)
    end
    meters[id] = meter
  end
end

local function text_of(charge, meter)
  local text = charge[KIND] .. exact(meter.value)
  if charge[KIND] == 'p' then
    text = text .. ' ' .. exact(meter.ends) .. ' ' .. meter.period
  end
  return text
end

local function save()
  local fields, gone = {}, {}
  for id, charge in pairs(changed) do
    if charge[KIND] == 'c' and meters[id].value <= 0 then
      gone[#gone + 1] = id
    else
      fields[#fields + 1] = id
      fields[#fields + 1] = text_of(charge, meters[id])
    end
  end
  if #fields > 0 then
    redis.call('HSET', METERS, unpack(fields))
  end
  if #gone > 0 then
    redis.call('HDEL', METERS, unpack(gone))
  end
  redis.call('EXPIRE', METERS, KEPT_S)
  changed = {}
end

-- Returns the meter of a charge, in the period in which it counts.
local function meter_of(charge)
  local meter = meters[charge[ID]]
  if charge[KIND] == 'p' and meter.period ~= charge[PERIOD] and meter.ends <= now + SKEW_S then
    meter.value, meter.ends, meter.period = 0, now + charge[LEFT_S], charge[PERIOD]
  end
  return meter
end

-- Returns the wait until there is room; 0: now.
local function wait_of(charge)
  local meter, units, amount = meter_of(charge), charge[UNITS], charge[AMOUNT]
  if units <= 0 then
    return 0
  end
  if units > amount + SLACK_UNITS then
    return math.huge
  end
  if charge[KIND] == 'r' then
    local lacking_s = (math.min(units, charge[BURST]) - charge[BURST]) * 60 / amount + math.max(meter.value - now, 0)
    return lacking_s > SLACK_S and lacking_s or 0
  end
  if meter.value + units <= amount + SLACK_UNITS then
    return 0
  end
  if charge[KIND] == 'c' then
    return CONCURRENT_WAIT_S
  end
  return math.max(meter.period == charge[PERIOD] and charge[LEFT_S] or meter.ends - now, SLACK_S)
end

local function count(charge)
  local meter = meter_of(charge)
  if charge[KIND] == 'r' then
    meter.value = math.max(meter.value, now) + charge[UNITS] * 60 / charge[AMOUNT]
  else
    meter.value = meter.value + charge[UNITS]
  end
  changed[charge[ID]] = charge
end

-- Replaces what *charge* reserved by *units*.
local function replace(charge, units)
  local meter = meters[charge[ID]]
  if charge[KIND] == 'r' then
    if meter.value == 0 then
      meter.value = now -- it was swept, because it was full
    end
    meter.value = meter.value + (units - charge[UNITS]) * 60 / charge[AMOUNT]
  elseif charge[KIND] == 'c' then
    meter.value = math.max(meter.value - charge[UNITS], 0)
  elseif meter.period == charge[PERIOD] then
    meter.value = math.max(meter.value + units - charge[UNITS], 0)
  else
    return
  end
  changed[charge[ID]] = charge
end

-- Appends remaining, reset_s of all charges to *reply*.
local function with_levels(reply, charges)
  for _, charge in ipairs(charges) do
    local meter = meter_of(charge)
    if charge[KIND] == 'r' then
      local full_in_s = math.max(meter.value - now, 0)
      reply[#reply + 1] = math.max(charge[BURST] - full_in_s * charge[AMOUNT] / 60, 0)
      reply[#reply + 1] = full_in_s
    else
      reply[#reply + 1] = math.max(charge[AMOUNT] - meter.value, 0)
      reply[#reply + 1] = charge[LEFT_S]
    end
  end
  return reply
end

-- ---- reservations

local function is_ended(reservation)
  return redis.call('ZSCORE', ENDED, reservation)
end

-- The booking of a request whose entry is written elsewhere is empty.
local function book(booking)
  if booking[1] then
    ledger_book(unpack(booking))
  end
end

local function remember_ended(reservation)
  redis.call('ZADD', ENDED, exact(now + ENDED_KEPT_S), reservation)
  touched[ENDED] = 2 * ENDED_KEPT_S
end

-- *packed*: msgpack of {charges, booking}, if it exists.
local function hold(reservation, charges, booking, packed)
  for _, charge in ipairs(charges) do
    count(charge)
    local period = meters[charge[ID]].period
    if charge[KIND] == 'p' and charge[PERIOD] ~= period then
      charge[PERIOD], packed = period, nil -- a gateway with another calendar may have started it
    end
  end
  redis.call('HSET', HELD, reservation, packed or cmsgpack.pack({charges, booking}))
  redis.call('ZADD', ENDS, exact(now + lease_s), reservation)
  touched[HELD], touched[ENDS] = KEPT_S, KEPT_S
end

-- Removes a reservation, and returns its charges and booking; nil: it was not held.
local function release(reservation)
  local held = redis.call('HGET', HELD, reservation)
  if held then
    redis.call('HDEL', HELD, reservation)
    redis.call('ZREM', ENDS, reservation)
    return unpack(cmsgpack.unpack(held))
  end
end

-- *used*: id of a limit -> units; 0 for missing limits.
local function settle(charges, used)
  load(charges)
  for _, charge in ipairs(charges) do
    replace(charge, used[charge[ID]] or 0)
  end
end

local function by_id(charges)
  local units = {}
  for _, charge in ipairs(charges) do
    units[charge[ID]] = charge[UNITS]
  end
  return units
end

-- A budget reserves the most that a request can use. A lost request is charged with its likely use.
local function likely_by_id(charges)
  local units = {}
  for _, charge in ipairs(charges) do
    units[charge[ID]] = charge[LIKELY] or charge[UNITS] -- earlier versions send only the latter
  end
  return units
end

-- Settles ended leases. Running gateways call every third of a lease. If none called for longer, Redis was unavailable,
-- and they get a lease to renew their reservations.
local function reap()
  local known = redis.call('HMGET', METERS, '.tended', '.grace')
  local tended, grace = tonumber(known[1] or nil), tonumber(known[2] or nil)
  if tended and now - tended > lease_s / 2 then
    grace = now + lease_s
    redis.call('HSET', METERS, '.grace', exact(grace))
  end
  if not tended or now - tended > lease_s / 10 then
    redis.call('HSET', METERS, '.tended', exact(now))
    redis.call('EXPIRE', METERS, KEPT_S)
  end
  if grace and now < grace then
    return 0
  end
  local lost = redis.call('ZRANGEBYSCORE', ENDS, '-inf', exact(now), 'LIMIT', 0, REAPED)
  for _, reservation in ipairs(lost) do
    local charges, booking = release(reservation)
    if charges then
      settle(charges, likely_by_id(charges))
      book(booking)
      remember_ended(reservation)
    end
    redis.call('ZREM', ENDS, reservation)
  end
  return #lost
end

-- ---- limits whose owners callers name, and limits that are not in use

-- Deletes some limits that are not in use for *idle_s*. Returns the next cursor.
local function sweep(cursor, count, idle_s)
  local found = redis.call('HSCAN', METERS, cursor, 'COUNT', count)
  for i = 1, #found[2], 2 do
    local id, text = found[2][i], found[2][i + 1]
    local ends = tonumber(string.match(text, '^r(%S+)$') or string.match(text, '^p%S+ (%S+) '))
    if ends and ends < now - idle_s and not meters[id] then
      redis.call('HDEL', METERS, id)
    end
  end
  return found[1]
end

-- Returns the place of the first charge for an end user or session that is not counted yet.
local function new_name(charges)
  for i, charge in ipairs(charges) do
    local id = charge[ID]
    if meters[id].is_new and (string.sub(id, 1, 5) == 'user:' or string.sub(id, 1, 8) == 'session:') then
      return i
    end
  end
end

-- Returns the place of such a charge for which there is no room among the limits of the team.
local function crowded(charges)
  local place = new_name(charges)
  if not place or redis.call('HLEN', METERS) + added < max_limits then
    return nil
  end
  local cursor = redis.call('HGET', METERS, '.cursor') or '0'
  redis.call('HSET', METERS, '.cursor', sweep(cursor, SWEPT_IN_CROWD, SKEW_S))
  return redis.call('HLEN', METERS) + added >= max_limits and place or nil
end

-- Notes that the limits of *charges* are counted, although they are not written yet.
local function note_added(charges)
  for _, charge in ipairs(charges) do
    local meter = meters[charge[ID]]
    if meter.is_new then
      meter.is_new, added = false, added + 1
    end
  end
end

-- ---- calls of gateways

-- *packed*: msgpack of {charges, booking if it is lost}.
-- Returns {granted (1, 0, or 2: crowded), index of the binding charge, its wait (-1: forever), levels}.
local function reserve(reservation, packed, charges, booking)
  if redis.call('HEXISTS', HELD, reservation) == 1 then
    return with_levels({1, 0, 0}, charges)
  end
  local place = crowded(charges)
  if place then
    return with_levels({2, place - 1, 0}, charges)
  end
  local binding, wait_s = 0, 0
  for i, charge in ipairs(charges) do
    local each_s = wait_of(charge)
    if each_s > wait_s then
      binding, wait_s = i - 1, each_s
    end
  end
  if wait_s > 0 or is_ended(reservation) then
    return with_levels({0, binding, wait_s == math.huge and -1 or wait_s}, charges)
  end
  hold(reservation, charges, booking, packed)
  note_added(charges)
  return with_levels({1, 0, 0}, charges)
end

local operations = {}

-- Replaces what was reserved by what was used, and books it. A reservation that is not held is charged, even without
-- room.
function operations.settle(reservation, charges, booking)
  local reserved = release(reservation)
  if reserved then
    settle(reserved, by_id(charges))
  elseif is_ended(reservation) then
    return
  else
    load(charges)
    for _, charge in ipairs(charges) do
      if charge[KIND] ~= 'c' then
        count(charge)
      end
    end
    remember_ended(reservation)
  end
  book(booking)
end

-- Gives everything back. A reservation that arrives later is not held.
function operations.drop(reservation)
  local reserved = release(reservation)
  if reserved then
    settle(reserved, {})
  else
    remember_ended(reservation)
  end
end

-- Holds what was granted without Redis, whether there is room or not.
function operations.adopt(reservation, charges, booking)
  if redis.call('HEXISTS', HELD, reservation) == 0 and not is_ended(reservation) then
    load(charges)
    hold(reservation, charges, booking)
  end
end

function operations.book(_, _, booking)
  book(booking)
end

-- ARGV: msgpack of {number of the first, {what, reservation, charges, booking}, ...}. Skips operations that were carried
-- out before.
local function carry_out(packed)
  local all = cmsgpack.unpack(packed)
  local done = tonumber(redis.call('GET', WRITER) or 0)
  local last = all[1] + #all - 2
  for i = 2, #all do
    if all[1] + i - 2 > done then
      local what, reservation, charges, booking = unpack(all[i])
      operations[what](reservation, charges, booking)
    end
  end
  if last > done then
    redis.call('SET', WRITER, exact(last), 'EX', WRITER_KEPT_S)
  end
  return last
end

-- ARGV: msgpack of {id, msgpack of {charges, booking if it is lost}} for each reservation, in the order of decisions;
-- possibly the argument of `carry_out`, which is called first.
-- Returns msgpack of the answers in the same order.
local function reserve_all(packed, packed_operations)
  if packed_operations then
    carry_out(packed_operations)
  end
  local all, answers = cmsgpack.unpack(packed), {}
  for _, each in ipairs(all) do
    each[3], each[4] = unpack(cmsgpack.unpack(each[2]))
    load(each[3])
  end
  for i, each in ipairs(all) do
    answers[i] = reserve(unpack(each))
  end
  return cmsgpack.pack(answers)
end

-- ARGV: cursor of the last sweep, ids of reservations that run.
-- Returns the numbers of lost and held reservations, and the next cursor.
local function tend(lost, cursor, ...)
  for _, reservation in ipairs({...}) do
    redis.call('ZADD', ENDS, 'XX', exact(now + lease_s), reservation)
  end
  redis.call('ZREMRANGEBYSCORE', ENDED, '-inf', exact(now))
  return {lost, redis.call('ZCARD', ENDS), sweep(cursor, SWEPT, IDLE_S)}
end

-- ARGV: msgpack of charges, all of periods. Returns msgpack of the units used or reserved of each.
local function spent(packed)
  local charges, values = cmsgpack.unpack(packed), {}
  load(charges)
  for i, charge in ipairs(charges) do
    values[i] = meter_of(charge).value
  end
  return cmsgpack.pack(values)
end

-- ARGV: msgpack of charges, all of periods. Reduces their use.
local function refund(packed)
  local charges = cmsgpack.unpack(packed)
  load(charges)
  for _, charge in ipairs(charges) do
    local meter = meter_of(charge)
    meter.value = math.max(meter.value - charge[UNITS], 0)
    changed[charge[ID]] = charge
  end
  return 1
end

local what, answer = ARGV[1], nil
if what == 'tend' then
  -- Renewed reservations are not lost, however late the call comes.
  answer = tend(0, unpack(ARGV, 3))
  answer[1] = reap()
else
  reap()
  answer = what == 'reserve' and reserve_all(ARGV[3], ARGV[4]) or what == 'carry_out' and carry_out(ARGV[3])
    or what == 'spent' and spent(ARGV[3]) or what == 'refund' and refund(ARGV[3])
end
if next(changed) then
  save()
end
ledger_write()
for key, kept_s in pairs(touched) do
  redis.call('EXPIRE', key, kept_s)
end
return answer
